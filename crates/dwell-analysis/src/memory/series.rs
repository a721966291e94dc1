//! Memory over time, as pairs of a time and a number of bytes.

use dwell_events::schema::memory::MemoryRow;

dwell_events::choices! {
    /// Which memory of the processes.
    MemoryKind {
        /// Resident memory.
        Rss = "rss",
        /// Resident memory, shared pages divided among those who share them.
        Pss = "pss",
        /// Resident anonymous memory.
        Anon = "anon",
        /// Resident file-backed memory.
        File = "file",
        /// Resident shared memory.
        Shmem = "shmem",
        /// Swapped-out memory.
        Swap = "swap",
        /// Memory on GPUs.
        Gpu = "gpu",
        /// What no file stands behind: anonymous, shared and swapped-out memory, and memory on GPUs.
        Own = "own",
        /// Tensors of keys and values, as the runtime shows them.
        ToldKv = "told_kv",
    }
}

/// PSS is given at a moment if its samples around it are no farther apart than this many of resident memory.
const MOST_PSS_SPANS: u64 = 2;

/// Bytes at a time between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAt {
    /// On the straight line between the samples before and after.
    pub bytes: u64,
    /// Time to the nearer of the two.
    pub gap_ns: u64,
}

/// One kind of memory over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    points: Vec<(u64, u64)>,
}

impl Series {
    /// Adds a sample; of two at the same time the later counts.
    pub fn push(&mut self, time_ns: u64, bytes: u64) {
        match self.points.last() {
            Some(&(last_ns, _)) if last_ns >= time_ns => {
                let place = self.points.partition_point(|&(sampled_ns, _)| sampled_ns < time_ns);
                if self.points[place].0 == time_ns {
                    self.points[place].1 = bytes;
                } else {
                    self.points.insert(place, (time_ns, bytes));
                }
            }
            _ => self.points.push((time_ns, bytes)),
        }
    }

    /// Times and bytes, in order.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    /// Bytes at a time; none before the first sample and after the last.
    pub fn at(&self, time_ns: u64) -> Option<ValueAt> {
        let after = self.points.partition_point(|&(sampled_ns, _)| sampled_ns < time_ns);
        let &(after_ns, after_bytes) = self.points.get(after)?;
        if after_ns == time_ns {
            return Some(ValueAt { bytes: after_bytes, gap_ns: 0 });
        }
        let (before_ns, before_bytes) = self.points[after.checked_sub(1)?];
        let (passed_ns, span_ns) = (time_ns - before_ns, after_ns - before_ns);
        let change = (i128::from(after_bytes) - i128::from(before_bytes)) * i128::from(passed_ns) / i128::from(span_ns);
        let bytes = u64::try_from(i128::from(before_bytes) + change).unwrap_or(0);
        Some(ValueAt { bytes, gap_ns: passed_ns.min(after_ns - time_ns) })
    }

    /// Time from the sample before a moment to the one after it; none for a moment outside of the samples, 0 at one.
    fn span_around_ns(&self, time_ns: u64) -> Option<u64> {
        let after = self.points.partition_point(|&(sampled_ns, _)| sampled_ns < time_ns);
        let &(after_ns, _) = self.points.get(after)?;
        if after_ns == time_ns {
            return Some(0);
        }
        Some(after_ns - self.points[after.checked_sub(1)?].0)
    }

    /// The samples from one time to another, both included.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> &[(u64, u64)] {
        let begin = self.points.partition_point(|&(sampled_ns, _)| sampled_ns < from_ns);
        let end = self.points.partition_point(|&(sampled_ns, _)| sampled_ns <= to_ns);
        self.points.get(begin..end).unwrap_or_default()
    }

    /// The first of the samples with the most bytes.
    pub fn peak(&self) -> Option<(u64, u64)> {
        self.points.iter().copied().rev().max_by_key(|&(_, bytes)| bytes)
    }
}

/// Memory of the engine's processes at one time; what was not sampled around it is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAt {
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Resident memory, shared pages divided.
    pub pss_bytes: Option<u64>,
    /// Resident anonymous memory.
    pub anon_bytes: Option<u64>,
    /// Resident file-backed memory.
    pub file_bytes: Option<u64>,
    /// Memory on GPUs.
    pub gpu_bytes: Option<u64>,
    /// Time to the nearest sample of resident memory.
    pub gap_ns: Option<u64>,
}

/// Memory of the engine's processes over time, by kind.
#[derive(Clone, Debug, Default)]
pub struct MemorySeries {
    rss: Series,
    pss: Series,
    anon: Series,
    file: Series,
    shmem: Series,
    swap: Series,
    gpu: Series,
    own: Series,
    told_kv: Series,
}

impl MemorySeries {
    /// Adds a sample. All rows must be of the same thing: the total of one tree, or one process.
    pub fn push(&mut self, row: &MemoryRow) {
        self.rss.push(row.timestamp_ns, row.rss_bytes);
        let kinds = [
            (&mut self.pss, row.pss_bytes),
            (&mut self.anon, row.anon_bytes),
            (&mut self.file, row.file_bytes),
            (&mut self.shmem, row.shmem_bytes),
            (&mut self.swap, row.swap_bytes),
            (&mut self.gpu, row.gpu_bytes),
            (&mut self.own, own_bytes(row)),
        ];
        for (series, bytes) in kinds {
            if let Some(bytes) = bytes {
                series.push(row.timestamp_ns, bytes);
            }
        }
    }

    /// Adds what the runtime says of its tensors of keys and values.
    pub fn push_told_kv(&mut self, time_ns: u64, bytes: u64) {
        self.told_kv.push(time_ns, bytes);
    }

    /// Whether nothing was sampled.
    pub fn is_empty(&self) -> bool {
        self.rss.points.is_empty()
    }

    /// One kind of memory.
    pub fn of(&self, kind: MemoryKind) -> &Series {
        match kind {
            MemoryKind::Rss => &self.rss,
            MemoryKind::Pss => &self.pss,
            MemoryKind::Anon => &self.anon,
            MemoryKind::File => &self.file,
            MemoryKind::Shmem => &self.shmem,
            MemoryKind::Swap => &self.swap,
            MemoryKind::Gpu => &self.gpu,
            MemoryKind::Own => &self.own,
            MemoryKind::ToldKv => &self.told_kv,
        }
    }

    /// Memory at a time.
    pub fn at(&self, time_ns: u64) -> MemoryAt {
        let bytes = |series: &Series| series.at(time_ns).map(|value| value.bytes);
        let rss = self.rss.at(time_ns);
        MemoryAt {
            rss_bytes: rss.map(|value| value.bytes),
            pss_bytes: bytes(&self.pss).filter(|_| self.is_pss_close(time_ns)),
            anon_bytes: bytes(&self.anon),
            file_bytes: bytes(&self.file),
            gpu_bytes: bytes(&self.gpu),
            gap_ns: rss.map(|value| value.gap_ns),
        }
    }

    /// PSS is sampled more rarely: a line between two of its samples says nothing of a process that grew at once between
    /// them.
    fn is_pss_close(&self, time_ns: u64) -> bool {
        let spans = self.pss.span_around_ns(time_ns).zip(self.rss.span_around_ns(time_ns));
        spans.is_some_and(|(pss_ns, rss_ns)| pss_ns <= MOST_PSS_SPANS * rss_ns)
    }
}

/// Anonymous memory is needed; of the others, what is not there is none.
fn own_bytes(row: &MemoryRow) -> Option<u64> {
    let others = [row.shmem_bytes, row.swap_bytes, row.gpu_bytes].into_iter().flatten();
    Some(others.fold(row.anon_bytes?, u64::saturating_add))
}
