use serde::{Deserialize, Serialize};

/// How much a loss matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Known and bounded; the numbers of the recorded regions do not depend on it.
    Info,
    /// Rows that should be there are missing.
    DataLoss,
}

impl Severity {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::DataLoss => "data_loss",
        }
    }
}

/// One kind of thing that a run did not see. The loss table has a row for each kind that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// The runtime copies inputs (token ids, positions, masks) into the graph before it is computed.
    InputUpload,
    /// The runtime copies the logits out after the graph was computed.
    LogitsReadBack,
    /// Scratch of the kernels: quantised activations, partial sums of attention.
    WorkBuffer,
    /// Copies of KV cells between streams made outside the graph.
    KvStreamCopy,
    /// Steps whose operation times could not be matched to operations; their rows carry the step's time.
    UnalignedOpTimes,
    /// Graphs that were computed while the recorder could not record.
    UnrecordedGraphs,
    /// Operations whose access rule is not known; all of their operands are taken as touched.
    GenericOpRule,
    /// Accesses that would lie outside the tensor that they are accesses to. They were cut or left out.
    RowsOutsideTensor,
    /// A graph ran on a device whose memory the recorder does not see.
    ForeignDevice,
    /// The worker ended before the run did.
    WorkerDied,
    /// The observer ended before the run did; the run was completed by `dwell recover`.
    ObserverDied,
    /// The run was interrupted by the user.
    Interrupted,
    /// A record in the raw stream could not be decoded.
    UndecodableRecords,
    /// Samples that were due but could not be taken.
    MissedSamples,
    /// Accesses that no rule could label and that were dropped, as the policy for them asks.
    UnlabelledAccesses,
    /// Programs of an engine that computed beside the one whose accesses are in the trace.
    UnlabelledPrograms,
    /// Answers that were computed and of which no token arrived.
    MissingAnswers,
    /// Batches of KV cache events that neither arrived nor could be had again.
    LostKvBatches,
    /// KV cache events about blocks of which no store was reported.
    UnmatchedKvEvents,
    /// KV cache events of a kind that is not known.
    UnknownKvEvents,
    /// Batches of KV cache events that were published before anybody listened.
    UnseenKvHistory,
    /// Samples of a recording that its recorder had no room for.
    LostSamples,
    /// Samples of a recording that are no load or store of a known address.
    SkippedSamples,
    /// Samples whose latency is known in cycles, while nobody said how long a cycle is.
    LatenciesInCycles,
    /// Allocations beyond the number that is followed at a time.
    UnfollowedAllocations,
    /// Processes or mappings whose pages could not be watched.
    UnwatchedMemory,
    /// Calls of allocators that could not be recorded.
    LostAllocations,
}

impl LossKind {
    /// Every kind, in the order in which the docs list them.
    pub const ALL: [LossKind; 27] = [
        LossKind::InputUpload,
        LossKind::LogitsReadBack,
        LossKind::WorkBuffer,
        LossKind::KvStreamCopy,
        LossKind::UnalignedOpTimes,
        LossKind::UnrecordedGraphs,
        LossKind::GenericOpRule,
        LossKind::RowsOutsideTensor,
        LossKind::ForeignDevice,
        LossKind::WorkerDied,
        LossKind::ObserverDied,
        LossKind::Interrupted,
        LossKind::UndecodableRecords,
        LossKind::MissedSamples,
        LossKind::UnlabelledAccesses,
        LossKind::UnlabelledPrograms,
        LossKind::MissingAnswers,
        LossKind::LostKvBatches,
        LossKind::UnmatchedKvEvents,
        LossKind::UnknownKvEvents,
        LossKind::UnseenKvHistory,
        LossKind::LostSamples,
        LossKind::SkippedSamples,
        LossKind::LatenciesInCycles,
        LossKind::UnfollowedAllocations,
        LossKind::UnwatchedMemory,
        LossKind::LostAllocations,
    ];

    /// The name used in the loss table.
    pub fn name(self) -> &'static str {
        match self {
            LossKind::InputUpload => "input_upload",
            LossKind::LogitsReadBack => "logits_read_back",
            LossKind::WorkBuffer => "work_buffer",
            LossKind::KvStreamCopy => "kv_stream_copy",
            LossKind::UnalignedOpTimes => "unaligned_op_times",
            LossKind::UnrecordedGraphs => "unrecorded_graphs",
            LossKind::GenericOpRule => "generic_op_rule",
            LossKind::RowsOutsideTensor => "rows_outside_tensor",
            LossKind::ForeignDevice => "foreign_device",
            LossKind::WorkerDied => "worker_died",
            LossKind::ObserverDied => "observer_died",
            LossKind::Interrupted => "interrupted",
            LossKind::UndecodableRecords => "undecodable_records",
            LossKind::MissedSamples => "missed_samples",
            LossKind::UnlabelledAccesses => "unlabelled_accesses",
            LossKind::UnlabelledPrograms => "unlabelled_programs",
            LossKind::MissingAnswers => "missing_answers",
            LossKind::LostKvBatches => "lost_kv_batches",
            LossKind::UnmatchedKvEvents => "unmatched_kv_events",
            LossKind::UnknownKvEvents => "unknown_kv_events",
            LossKind::UnseenKvHistory => "unseen_kv_history",
            LossKind::LostSamples => "lost_samples",
            LossKind::SkippedSamples => "skipped_samples",
            LossKind::LatenciesInCycles => "latencies_in_cycles",
            LossKind::UnfollowedAllocations => "unfollowed_allocations",
            LossKind::UnwatchedMemory => "unwatched_memory",
            LossKind::LostAllocations => "lost_allocations",
        }
    }

    /// Whether rows are missing because of it.
    pub fn severity(self) -> Severity {
        match self {
            LossKind::InputUpload
            | LossKind::LogitsReadBack
            | LossKind::WorkBuffer
            | LossKind::UnalignedOpTimes
            | LossKind::GenericOpRule
            | LossKind::MissedSamples
            | LossKind::UnlabelledAccesses
            | LossKind::UnknownKvEvents
            | LossKind::UnseenKvHistory
            | LossKind::SkippedSamples
            | LossKind::LatenciesInCycles
            | LossKind::UnfollowedAllocations => Severity::Info,
            LossKind::KvStreamCopy
            | LossKind::UnrecordedGraphs
            | LossKind::RowsOutsideTensor
            | LossKind::ForeignDevice
            | LossKind::WorkerDied
            | LossKind::ObserverDied
            | LossKind::Interrupted
            | LossKind::UndecodableRecords
            | LossKind::UnlabelledPrograms
            | LossKind::MissingAnswers
            | LossKind::LostKvBatches
            | LossKind::UnmatchedKvEvents
            | LossKind::LostSamples
            | LossKind::UnwatchedMemory
            | LossKind::LostAllocations => Severity::DataLoss,
        }
    }

    /// One sentence on what it means for the reader of the tables.
    pub fn advice(self) -> &'static str {
        match self {
            LossKind::InputUpload => {
                "inputs are written outside the graph; the loads of them are in the trace, the stores are not"
            }
            LossKind::LogitsReadBack => {
                "logits are copied out after the graph; the store of them is in the trace, this load is not"
            }
            LossKind::WorkBuffer => {
                "tables and tiles that kernels keep per thread for one operation are not in the trace"
            }
            LossKind::KvStreamCopy => {
                "KV cells were copied between streams outside the graph; use a unified cache to see them"
            }
            LossKind::UnalignedOpTimes => {
                "times inside these steps are the step's, and experts are taken as read in full"
            }
            LossKind::UnrecordedGraphs => "these graphs left no rows; totals are lower bounds",
            LossKind::GenericOpRule => {
                "all operands of these operations are taken as read in full; bytes are an upper bound"
            }
            LossKind::RowsOutsideTensor => {
                "accesses that would lie outside their tensor were cut or left out; totals of these operations are wrong"
            }
            LossKind::ForeignDevice => "addresses on other devices are theirs, and what happens there is not checked",
            LossKind::WorkerDied => "the tables hold everything until the worker ended",
            LossKind::ObserverDied => "the tables hold everything until the observer ended",
            LossKind::Interrupted => "the tables hold everything until the interruption",
            LossKind::UndecodableRecords => "these records left no rows; totals are lower bounds",
            LossKind::MissedSamples => "the table of these samples has gaps",
            LossKind::UnlabelledAccesses => {
                "accesses that nothing could label were left out, as asked for; totals do not count them"
            }
            LossKind::UnlabelledPrograms => {
                "the trace has the 64 processes with the most records; totals are lower bounds"
            }
            LossKind::MissingAnswers => "the tokens table lacks these answers; the trace has their computations",
            LossKind::LostKvBatches => "blocks may be missing, and others may have ended earlier than their rows say",
            LossKind::UnmatchedKvEvents => "lives of these blocks are missing: their store was not seen",
            LossKind::UnknownKvEvents => {
                "events of kinds that are not known were passed over; what they changed is not in the table"
            }
            LossKind::UnseenKvHistory => "blocks that were stored before are not in the table",
            LossKind::LostSamples => {
                "these samples left no rows; estimates of totals are too low, most where the program was busiest"
            }
            LossKind::SkippedSamples => "these samples are no loads or stores of known addresses, and left no rows",
            LossKind::LatenciesInCycles => {
                "latencies were recorded in cycles and are left out; state the clock of the cores with --cpu-mhz"
            }
            LossKind::UnfollowedAllocations => {
                "more was allocated at a time than is followed; what was allocated from then on, and at the peak, is not known"
            }
            LossKind::UnwatchedMemory => "accesses to this memory are not in the table; totals are lower bounds",
            LossKind::LostAllocations => "these calls are not in the table: lives are missing or have no end",
        }
    }
}
