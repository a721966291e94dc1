//! [`ModelInfo`] as text: one aligned line per fact.

use std::fmt::{self, Display, Formatter};

use crate::{ModelInfo, TensorLine};

impl Display for ModelInfo {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (label, fact) in self.facts() {
            writeln!(formatter, "{label:<15}{fact}")?;
        }
        self.write_types(formatter)?;
        self.write_kept(formatter)?;
        self.write_memory(formatter)?;
        self.tensors.as_deref().map_or(Ok(()), |tensors| write_tensors(tensors, formatter))
    }
}

impl ModelInfo {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(path) = &self.path {
            facts.push(("file", path.display().to_string()));
        }
        facts.push((
            "size",
            format!("{} ({} bytes, GGUF v{})", scaled(self.file_bytes), self.file_bytes, self.gguf_version),
        ));
        if self.split_files > 1 {
            facts.push(("split", format!("one of {} files; sizes are those of this one", self.split_files)));
        }
        facts.push(("architecture", self.architecture.clone()));
        if let Some(name) = &self.name {
            facts.push(("name", name.clone()));
        }
        facts.extend(self.shape_facts());
        facts
    }

    fn shape_facts(&self) -> Vec<(&'static str, String)> {
        let heads = format!(
            "{}, kv heads {}, head dim {}",
            listed(&self.heads),
            listed(&self.kv_heads),
            listed(&self.head_dim)
        );
        let experts = match self.experts {
            0 => "none".to_owned(),
            experts => format!("{experts}, {} used per token", self.experts_used),
        };
        let window = match self.sliding_window {
            None => "none".to_owned(),
            Some(window) => format!("{window} positions in {} of {} layers", self.windowed_layers, self.layers),
        };
        let output = if self.tied_output { "tied to the embedding" } else { "a matrix of its own" };
        vec![
            ("parameters", parameters(self.parameters)),
            ("layers", self.layers.to_string()),
            ("embedding", self.embedding.to_string()),
            ("heads", heads),
            ("feed forward", listed(&self.feed_forward)),
            ("experts", experts),
            ("vocabulary", self.vocabulary.to_string()),
            ("context", format!("{} in training", self.context_train)),
            ("sliding window", window),
            ("output", output.to_owned()),
        ]
    }

    fn write_types(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let all_bytes: u64 = self.types.iter().fold(0, |sum, total| sum.saturating_add(total.size_bytes));
        writeln!(formatter, "\ntensors by type")?;
        for total in &self.types {
            let percent = 100.0 * total.size_bytes as f64 / all_bytes.max(1) as f64;
            let size = scaled(total.size_bytes);
            writeln!(formatter, "  {:<11}{:>5} {size:>11} {percent:>6.2} %", total.type_name, total.count)?;
        }
        Ok(())
    }

    /// What is kept of the tokens: keys and values, a state, or both. An encoder keeps neither.
    fn write_kept(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let has_kv = self.kv_bytes_per_token.iter().any(|line| line.bytes != Some(0));
        if has_kv {
            self.write_kv(formatter)?;
        } else if self.state_bytes_per_sequence == 0 {
            writeln!(formatter, "\nKV cache       none: nothing is kept between computations")?;
        }
        if self.state_bytes_per_sequence > 0 {
            let bytes = self.state_bytes_per_sequence;
            writeln!(formatter, "\nrecurrent state {} ({bytes} bytes) per sequence", scaled(bytes))?;
        }
        Ok(())
    }

    fn write_kv(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "\nKV cache per token, all layers")?;
        for line in &self.kv_bytes_per_token {
            let bytes =
                line.bytes.map_or_else(|| "rows are not whole blocks".to_owned(), |bytes| format!("{bytes} bytes"));
            writeln!(formatter, "  {:<6}{bytes:>22}", line.kv_type.name())?;
        }
        Ok(())
    }

    fn write_memory(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (keys, values) = (self.kv_type_k.name(), self.kv_type_v.name());
        let line = |name: &str, bytes: u64| format!("  {name:<16}{:>12}", scaled(bytes));
        writeln!(formatter, "\nmemory at context {}, keys {keys}, values {values}", self.context_length)?;
        writeln!(formatter, "{}", line("weights", self.memory.weights_bytes))?;
        if self.memory.kv_bytes > 0 {
            writeln!(formatter, "{}", line("KV cache", self.memory.kv_bytes))?;
        }
        if self.memory.state_bytes > 0 {
            writeln!(formatter, "{}", line("recurrent state", self.memory.state_bytes))?;
        }
        writeln!(formatter, "{} (estimate)", line("compute", self.memory.compute_bytes_estimate))?;
        writeln!(formatter, "{}", line("total", self.memory.total_bytes()))
    }
}

fn write_tensors(tensors: &[TensorLine], formatter: &mut Formatter<'_>) -> fmt::Result {
    let width = tensors.iter().map(|tensor| tensor.name.len()).max().unwrap_or(0);
    writeln!(formatter, "\n{} tensors", tensors.len())?;
    for tensor in tensors {
        let dimensions: Vec<String> = tensor.dimensions.iter().map(u64::to_string).collect();
        let (name, type_name, dimensions) = (&tensor.name, tensor.type_name, dimensions.join(" x "));
        let (offset, bytes) = (tensor.file_offset, tensor.size_bytes);
        writeln!(formatter, "  {name:<width$}  {type_name:<8}{dimensions:>20} {bytes:>13} bytes at {offset}")?;
    }
    Ok(())
}

fn listed(values: &[u32]) -> String {
    match values {
        [] => "none".to_owned(),
        [only] => only.to_string(),
        [least, .., most] => format!("{least} to {most}"),
    }
}

fn parameters(count: u64) -> String {
    match count as f64 {
        billions if billions >= 1e9 => format!("{:.2} B", billions / 1e9),
        millions if millions >= 1e6 => format!("{:.2} M", millions / 1e6),
        thousands if thousands >= 1e3 => format!("{:.1} k", thousands / 1e3),
        _ => count.to_string(),
    }
}

/// Bytes in the largest binary unit of which there is at least one.
fn scaled(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = None;
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = Some(larger);
    }
    match unit {
        None => format!("{bytes} B"),
        Some(unit) => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_given_in_the_largest_unit_that_fits() {
        assert_eq!(scaled(1023), "1023 B");
        assert_eq!(scaled(1024), "1.00 KiB");
        assert_eq!(scaled(3 << 29), "1.50 GiB");
    }

    #[test]
    fn numbers_that_differ_between_layers_are_given_as_a_range() {
        assert_eq!(listed(&[8]), "8");
        assert_eq!(listed(&[0, 4, 8]), "0 to 8");
    }
}
