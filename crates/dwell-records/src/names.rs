//! What the names that llama.cpp gives to tensors say.

/// What a tensor that outlives graphs holds, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Keys, one row for each cell.
    Keys,
    /// Values.
    Values,
    /// State of layers that keep no keys and values, one row for each sequence.
    State,
}

/// What a tensor keeps between computations, by the name that llama.cpp gives it; `None` for one that does not.
///
/// Keys and values are `cache_<tag>k_l<layer>` and `cache_<tag>v_l<layer>`, states `cache_r_l<layer>`,
/// `cache_s_l<layer>`, `cache_ple_r_l<layer>` and `dsv4_<kind>_state_<part>_l<layer>`.
pub fn kept_in(name: &str) -> Option<Kept> {
    let (stem, layer) = name.rsplit_once("_l")?;
    if layer.is_empty() || !layer.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if stem.starts_with("dsv4_") {
        return stem.contains("_state_").then_some(Kept::State);
    }
    match stem.strip_prefix("cache_")?.rsplit('_').next()? {
        "k" => Some(Kept::Keys),
        "v" => Some(Kept::Values),
        "r" | "s" => Some(Kept::State),
        _ => None,
    }
}

/// The layer that a tensor's name says it belongs to.
///
/// Weights are `blk.<layer>.…`, caches `cache_<kind>_l<layer>`, states of compressed attention `dsv4_<kind>_l<layer>`, results `<what>-<layer>`, each perhaps followed by a
/// remark in parentheses.
pub fn layer_of(name: &str) -> Option<u16> {
    let name = name.split(' ').next().unwrap_or(name);
    if let Some(rest) = name.strip_prefix("blk.") {
        return rest.split('.').next()?.parse().ok();
    }
    if name.starts_with("cache_") || name.starts_with("dsv4_") {
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
        assert_eq!(layer_of("dsv4_csa_state_kv_l7"), Some(7));
        assert_eq!(layer_of("ffn_out-29"), Some(29));
        assert_eq!(layer_of("Qcur-0 (reshaped)"), Some(0));
        assert_eq!(layer_of("token_embd.weight"), None);
        assert_eq!(layer_of("result_norm"), None);
        assert_eq!(layer_of("node_33"), None);
    }

    #[test]
    fn keys_values_and_states_are_told_apart_by_their_names() {
        let kept =
            ["cache_k_l7", "cache_idx_k_l12", "cache_v_l0", "cache_r_l3", "cache_s_l3", "cache_ple_r_l3"].map(kept_in);
        let [keys, values, state] = [Kept::Keys, Kept::Values, Kept::State].map(Some);
        assert_eq!(kept, [keys, keys, values, state, state, state]);
        assert_eq!(["dsv4_csa_state_kv_l2", "dsv4_lid_state_score_l2"].map(kept_in), [state, state]);
        assert_eq!(
            ["cache_k", "cache_k_lx", "blk.0.attn_k.weight", "Kcur-0", "cache_x_l1", ""].map(kept_in),
            [None; 6]
        );
    }
}
