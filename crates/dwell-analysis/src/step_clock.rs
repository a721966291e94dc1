//! Time in steps: a clock that does not depend on how fast the machine is.
//!
//! A step is one computation of the model: a prompt, or one token of each sequence. Between two moments lie as many steps as
//! began after the first and not after the second.

use dwell_events::address_space::process_of;

use crate::step_windows::PROMPT;

/// A process that computes nothing for so long waits for work: a server without requests. That time is the same on a faster
/// machine. Shorter gaps are the runtime's own work between two steps.
const PAUSE_LEAST_NS: u64 = 1_000_000_000;

/// What lies between two moments of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Steps that began.
    pub(crate) steps: u64,
    /// Time in which the process waited for work.
    pub(crate) pause_ns: u64,
}

/// The steps of every process of a trace, by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepClock {
    /// By number of the process.
    processes: Vec<ProcessClock>,
}

#[derive(Clone, Debug, Default)]
struct ProcessClock {
    begins: Vec<StepBegin>,
    current: Option<u32>,
    latest: u32,
    last_row_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct StepBegin {
    begin_ns: u64,
    /// All pauses up to here.
    paused_ns: u64,
}

impl StepClock {
    /// Takes the step of a row; rows have to come by time.
    #[inline]
    pub(crate) fn follow(&mut self, address: u64, step: Option<u32>, now_ns: u64) {
        let Some(step) = step else { return };
        let process = usize::from(process_of(address));
        if process >= self.processes.len() {
            self.processes.resize_with(process + 1, ProcessClock::default);
        }
        self.processes[process].follow(step, now_ns);
    }

    /// How many steps of the process that an address belongs to have begun.
    #[inline]
    pub(crate) fn begun(&self, address: u64) -> u32 {
        self.processes.get(usize::from(process_of(address))).map_or(0, |process| process.begins.len() as u32)
    }

    /// What lies between two moments of the process that an address belongs to, as seen when so many steps had begun. A row
    /// that waited must not see steps that began since, at the time of the row itself.
    #[inline]
    pub(crate) fn span(&self, address: u64, from_ns: u64, to_ns: u64, begun: u32) -> Span {
        self.processes
            .get(usize::from(process_of(address)))
            .map_or_else(Span::default, |process| process.span(from_ns, to_ns, begun as usize))
    }

    /// Steps of the process that made the most of them.
    pub(crate) fn steps(&self) -> u64 {
        self.processes.iter().map(|process| process.begins.len() as u64).max().unwrap_or(0)
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        self.processes.iter().map(|process| process.begins.capacity() * size_of::<StepBegin>()).sum()
    }

    /// How long the process that made the most steps takes where a step takes so long.
    pub(crate) fn at_pace_ns(&self, step_ns: f64) -> f64 {
        let at_pace_ns = |begins: &[StepBegin]| {
            begins.len() as f64 * step_ns + begins.last().map_or(0.0, |last| last.paused_ns as f64)
        };
        let busiest = self.processes.iter().max_by_key(|process| process.begins.len());
        busiest.map_or(0.0, |process| at_pace_ns(&process.begins))
    }
}

impl ProcessClock {
    #[inline]
    fn follow(&mut self, step: u32, now_ns: u64) {
        if self.current != Some(step) {
            self.change(step, now_ns);
        }
        self.last_row_ns = now_ns;
    }

    fn change(&mut self, step: u32, now_ns: u64) {
        // Requests come back to the prompt. Any other step that was there before is one of another thread, and no new one.
        let is_new = self.current.is_none() || step > self.latest || step == PROMPT;
        if is_new {
            let waited_ns = now_ns.saturating_sub(self.last_row_ns);
            let pause_ns = if self.current.is_some() && waited_ns >= PAUSE_LEAST_NS { waited_ns } else { 0 };
            let paused_ns = self.begins.last().map_or(0, |last| last.paused_ns) + pause_ns;
            self.begins.push(StepBegin { begin_ns: now_ns, paused_ns });
        }
        self.latest = self.latest.max(step);
        self.current = Some(step);
    }

    fn span(&self, from_ns: u64, to_ns: u64, begun: usize) -> Span {
        let begins = &self.begins[..begun.min(self.begins.len())];
        // Most lives end in the step in which they began, the latest.
        if begins.last().is_none_or(|last| last.begin_ns <= from_ns) {
            return Span::default();
        }
        let begun_by = |moment_ns| begins.partition_point(|step| step.begin_ns <= moment_ns);
        let (from, to) = (begun_by(from_ns), begun_by(to_ns));
        let paused_ns = |steps: usize| steps.checked_sub(1).map_or(0, |last| begins[last].paused_ns);
        Span { steps: to.saturating_sub(from) as u64, pause_ns: paused_ns(to).saturating_sub(paused_ns(from)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn clock(rows: &[(u32, u64)]) -> StepClock {
        let mut clock = StepClock::default();
        rows.iter().for_each(|&(step, now_ns)| clock.follow(0x1000, Some(step), now_ns));
        clock
    }

    #[test]
    fn steps_between_two_moments_are_those_that_began() {
        let clock = clock(&[(0, 10), (0, 15), (1, 20), (1, 25), (2, 30)]);
        let steps = |from_ns, to_ns| clock.span(0x1000, from_ns, to_ns, u32::MAX).steps;
        assert_eq!(steps(0, 30), 3, "what was there before the prompt lasts through all of them");
        assert_eq!((steps(10, 30), steps(15, 29), steps(20, 25), steps(30, 99)), (2, 1, 0, 0));
        assert_eq!(clock.span(1 << 56, 0, 99, u32::MAX).steps, 0, "another process made none");
        assert_eq!(clock.steps(), 3);
        assert_eq!(clock.span(0x1000, 10, 30, 2).steps, 1, "the third had not begun");
    }

    #[test]
    fn each_request_has_its_prompt_and_threads_in_turns_make_no_steps() {
        assert_eq!(clock(&[(0, 1), (1, 2), (0, 3), (2, 4), (3, 5)]).steps(), 5);
        assert_eq!(clock(&[(1, 1), (2, 2), (1, 3), (2, 4)]).steps(), 2);
        assert_eq!(clock(&[(0, 1), (0, 9)]).steps(), 1);
    }

    #[test]
    fn waiting_for_work_is_a_pause_and_the_work_between_steps_is_none() {
        let clock = clock(&[(0, 0), (1, S / 2), (0, 60 * S), (2, 60 * S + 1)]);
        assert_eq!(clock.span(0x1000, 1, 60 * S + 1, u32::MAX), Span { steps: 3, pause_ns: 60 * S - S / 2 });
        assert_eq!(clock.span(0x1000, 60 * S, 61 * S, u32::MAX), Span { steps: 1, pause_ns: 0 });
    }
}
