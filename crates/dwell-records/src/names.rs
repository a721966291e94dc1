//! What the names that llama.cpp gives to tensors say.

/// The layer that a tensor's name says it belongs to.
///
/// Weights are `blk.<layer>.…`, caches `cache_<kind>_l<layer>`, results `<what>-<layer>`, each perhaps followed by a
/// remark in parentheses.
pub fn layer_of(name: &str) -> Option<u16> {
    let name = name.split(' ').next().unwrap_or(name);
    if let Some(rest) = name.strip_prefix("blk.") {
        return rest.split('.').next()?.parse().ok();
    }
    if name.starts_with("cache_") {
        return name.rsplit_once("_l")?.1.parse().ok();
    }
    name.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_is_read_from_every_kind_of_name() {
        assert_eq!(layer_of("blk.12.attn_q.weight"), Some(12));
        assert_eq!(layer_of("cache_k_l7"), Some(7));
        assert_eq!(layer_of("ffn_out-29"), Some(29));
        assert_eq!(layer_of("Qcur-0 (reshaped)"), Some(0));
        assert_eq!(layer_of("token_embd.weight"), None);
        assert_eq!(layer_of("result_norm"), None);
        assert_eq!(layer_of("node_33"), None);
    }
}
