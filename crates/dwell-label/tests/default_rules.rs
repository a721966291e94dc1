//! The rules that dwell comes with, asked about functions of llama.cpp, vLLM and PyTorch.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, Phase, RegionType};
use dwell_label::{RuleLabeller, RuleSet, UnknownPolicy};

use OpType::{Load, Store};
use Phase::{Generation, WeightLoad};
use RegionType::{Activation, KvCache, Runtime, Unknown, Weight};

/// Functions as `perf script` and profilers of CUDA print them, and whose memory they touch.
const KNOWN: [(&str, Phase, OpType, RegionType); 58] = [
    // Loading.
    ("llama_model_loader::load_all_data(ggml_context*, …)", WeightLoad, Store, Weight),
    ("ggml_backend_tensor_set", WeightLoad, Store, Weight),
    ("ggml_backend_tensor_set", Generation, Store, Unknown),
    ("__memcpy_avx_unaligned_erms", WeightLoad, Store, Weight),
    ("memcpy", WeightLoad, Store, Weight),
    ("__memcpy_evex_unaligned_erms", Generation, Store, Unknown),
    ("gguf_init_from_file_impl", WeightLoad, Store, Runtime),
    ("caffe2::serialize::PyTorchStreamReader::getRecord", WeightLoad, Store, Weight),
    ("vllm.model_executor.model_loader.weight_utils.default_weight_loader", WeightLoad, Store, Weight),
    ("repack_q4_0_to_q4_0_8_bl", WeightLoad, Store, Weight),
    // KV cache.
    ("void vllm::reshape_and_cache_flash_kernel<__half, __half>", Generation, Store, KvCache),
    ("void vllm::reshape_and_cache_flash_kernel<__half, __half>", Generation, Load, Activation),
    ("void vllm::concat_and_cache_mla_kernel<__nv_bfloat16>", Generation, Store, KvCache),
    ("void vllm::copy_blocks_kernel<float>", Generation, Load, KvCache),
    ("ggml_compute_forward_set_rows", Generation, Store, KvCache),
    ("ggml_compute_forward_set_rows_f32<long>", Generation, Load, Activation),
    ("llama_kv_cache::find_slot", Generation, Store, Runtime),
    ("llama_kv_cache_unified::apply_ubatch", Generation, Store, Runtime),
    ("llama_kv_cache::set_input_kq_mask", Generation, Store, Activation),
    // Kernels that read more than one kind of memory.
    ("void vllm::paged_attention_v1_kernel<unsigned short, 128>", Generation, Load, Unknown),
    ("void vllm::paged_attention_v2_kernel<unsigned short, 128>", Generation, Store, Activation),
    ("ggml_compute_forward_flash_attn_ext", Generation, Load, Unknown),
    ("flash_fwd_splitkv_kernel", Generation, Store, Activation),
    ("at::native::_scaled_dot_product_flash_attention_cpu", Generation, Load, Unknown),
    ("ggml_vec_dot_q4_0_q8_0", Generation, Load, Unknown),
    ("ggml_vec_dot_q4_K_q8_K", Generation, Store, Activation),
    ("ggml_compute_forward_mul_mat", Generation, Load, Unknown),
    ("ggml_compute_forward_mul_mat_id", Generation, Load, Unknown),
    ("ggml_gemv_q4_0_8x8_q8_0", Generation, Load, Unknown),
    ("(anonymous namespace)::tinyBLAS_Q0_AVX<block_q8_0>::gemm4xN", Generation, Load, Unknown),
    ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", Generation, Load, Unknown),
    ("cublasGemmEx", Generation, Store, Activation),
    ("dnnl::impl::cpu::x64::brgemm_matmul_t::execute_body", Generation, Load, Unknown),
    ("mkl_blas_avx512_sgemm_kernel_0", Generation, Load, Unknown),
    ("aten::addmm", Generation, Store, Activation),
    ("aten::linear", Generation, Load, Unknown),
    ("ggml_compute_forward_get_rows", Generation, Load, Unknown),
    ("aten::embedding", Generation, Store, Activation),
    ("quantize_row_q8_K", Generation, Store, Runtime),
    ("quantize_row_q8_K", Generation, Load, Activation),
    ("quantize_row_q8_0", Generation, Store, Unknown),
    ("ggml_compute_forward_cpy", Generation, Store, Unknown),
    ("ggml_compute_forward_dup_bytes", Generation, Store, Unknown),
    ("aten::cat", Generation, Store, Unknown),
    ("aten::index_copy_", Generation, Store, Unknown),
    // Activations.
    ("ggml_compute_forward_rms_norm", Generation, Store, Activation),
    ("ggml_compute_forward_rms_norm", Generation, Load, Unknown),
    ("ggml_compute_forward_soft_max", Generation, Load, Activation),
    ("ggml_vec_silu_f32", Generation, Store, Activation),
    ("aten::_softmax", Generation, Load, Activation),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::gelu_kernel>", Generation, Load, Activation),
    // Runtime.
    ("_int_malloc", Generation, Store, Runtime),
    ("__libc_calloc", Generation, Load, Runtime),
    ("cfree@GLIBC_2.2.5", Generation, Load, Runtime),
    ("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc", Generation, Load, Runtime),
    ("_PyEval_EvalFrameDefault", Generation, Load, Runtime),
    ("ggml_backend_sched_split_graph", Generation, Store, Runtime),
    ("some_function_of_nobody", Generation, Load, Unknown),
];

#[test]
fn the_default_rules_say_what_a_name_can_tell_and_no_more() {
    let mut wrong = Vec::new();
    for (symbol, phase, op_type, expected) in KNOWN {
        let access = TraceRow {
            timestamp_ns: 1,
            address: 0x1000,
            size_bytes: 8,
            op_type,
            phase: Some(phase),
            symbol,
            dso: "",
            source: "perf_mem",
            ..TraceRow::EMPTY
        };
        let mut labeller = RuleLabeller::new(RuleSet::default_rules(), UnknownPolicy::Keep);
        let found = labeller.label(&access).unwrap().unwrap().region_type;
        if found != expected {
            wrong.push(format!("{symbol} ({}, {}): {found:?} instead of {expected:?}", phase.name(), op_type.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
