//! What llama.cpp's programs print about a model.

/// A figure that the loader prints, such as `print_info: n_layer               = 30`.
pub(crate) fn printed_figure<'a>(log: &'a str, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        let (before, value) = line.split_once(" = ")?;
        (before.split_whitespace().last()? == name).then(|| value.trim())
    };
    log.lines().find_map(of_line)
}

/// The model as the loader prints it, such as `llama 256M Q4_1`; empty if it does not.
pub(crate) fn printed_description(log: &str) -> String {
    let printed = |name: &str| {
        let of_line = |line: &str| {
            let (before, value) = line.split_once("print_info: ")?.1.split_once(" = ")?;
            (before.trim() == name).then(|| value.trim().to_owned())
        };
        log.lines().find_map(of_line)
    };
    ["arch", "model type", "file type"].into_iter().filter_map(printed).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use dwell_events::llama_log::reported_buffers;
    use dwell_events::server::{BufferKind, ReportedBuffer};

    use super::*;

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn a_model_is_described_as_the_loader_does() {
        let log = include_str!("../tests/data/llama-completion-0.7.0-window.log");
        assert_eq!(printed_description(log), "gemma3 ?B F16");
        assert_eq!(printed_description("no such line"), "");
    }

    fn buffer(kind: BufferKind, device: &str, bytes: u64, is_mapped: bool) -> ReportedBuffer {
        ReportedBuffer { kind, device: device.to_owned(), bytes, is_mapped }
    }

    fn mib(size: f64) -> u64 {
        (size * MIB).round() as u64
    }

    #[test]
    fn the_log_of_a_server_of_0_7_names_every_buffer() {
        let log = include_str!("../tests/data/llama-server-0.7.0.log");
        assert_eq!(
            reported_buffers(log),
            [
                buffer(BufferKind::Weights, "CPU", mib(92.10), true),
                buffer(BufferKind::Other, "CPU", mib(0.38), false),
                buffer(BufferKind::KvCache, "CPU", mib(11.25), false),
                buffer(BufferKind::Compute, "CPU", mib(14.89), false),
            ]
        );
        assert_eq!(printed_figure(log, "n_layer"), Some("30"));
        assert_eq!(printed_figure(log, "n_vocab"), Some("49152"));
        assert_eq!(printed_figure(log, "no_such_figure"), None);
    }

    #[test]
    fn a_window_cache_has_two_buffers_on_one_device() {
        let log = include_str!("../tests/data/llama-completion-0.7.0-window.log");
        let caches: Vec<u64> = reported_buffers(log)
            .iter()
            .filter(|buffer| buffer.kind == BufferKind::KvCache)
            .map(|buffer| buffer.bytes)
            .collect();
        assert_eq!(caches.len(), 2, "{caches:?}");
    }

    /// The breakdown that llama.cpp's own documentation shows (tools/fit-params/README.md).
    #[test]
    fn without_lines_for_each_buffer_the_breakdown_is_taken() {
        let log = "\
llama_memory_breakdown_print: | memory breakdown [MiB] | total   free     self   model   context   compute    unaccounted |
llama_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24077 =  945 + (19187 = 17904 +     384 +     898) +        3945 |
llama_memory_breakdown_print: |   - Host               |                 58271 = 58259 +       0 +      12                |
some other line";
        assert_eq!(
            reported_buffers(log),
            [
                buffer(BufferKind::Weights, "CUDA0", 17904 << 20, false),
                buffer(BufferKind::KvCache, "CUDA0", 384 << 20, false),
                buffer(BufferKind::Compute, "CUDA0", 898 << 20, false),
                buffer(BufferKind::Weights, "Host", 58259 << 20, false),
                buffer(BufferKind::Compute, "Host", 12 << 20, false),
            ]
        );
    }

    #[test]
    fn older_words_and_other_lines() {
        let log = "\
llm_load_tensors:        CPU buffer size =  4807.05 MiB
llama_kv_cache_init:        CPU KV buffer size =  1024.00 MiB
llama_new_context_with_model:        CPU  output buffer size =     0.49 MiB
llama_new_context_with_model:        CPU compute buffer size =   560.01 MiB
sched_reserve:        CPU compute buffer size =   600.00 MiB
load_tensors:    CUDA0 model buffer size =     0.00 MiB
no buffer size = here
";
        assert_eq!(
            reported_buffers(log),
            [
                buffer(BufferKind::Weights, "CPU", mib(4807.05), false),
                buffer(BufferKind::KvCache, "CPU", mib(1024.0), false),
                buffer(BufferKind::Other, "CPU", mib(0.49), false),
                buffer(BufferKind::Compute, "CPU", mib(600.0), false),
            ]
        );
        assert_eq!(reported_buffers("nothing of the kind"), []);
    }

    #[test]
    fn states_are_told_apart_from_keys_and_values() {
        let log = "llama_kv_cache:        CPU KV buffer size =    11.25 MiB\n\
                   llama_memory_recurrent:        CPU RS buffer size =     2.50 MiB\n";
        let expected = [
            buffer(BufferKind::KvCache, "CPU", mib(11.25), false),
            buffer(BufferKind::RecurrentState, "CPU", mib(2.5), false),
        ];
        assert_eq!(reported_buffers(log), expected);
    }
}
