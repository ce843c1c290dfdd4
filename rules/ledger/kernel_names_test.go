package ledger

import "testing"

// Kernels as their libraries name them, over the generations.
func TestKernelNames(t *testing.T) {
	tab := tables(t)
	for _, c := range []struct {
		name, class string
		tensor      int8
		dtype       string
	}{
		// cuBLAS and cuBLASLt, Maxwell to Blackwell
		{"maxwell_sgemm_128x64_nn", "matmul", -1, "fp32"},
		{"volta_sgemm_128x64_tn", "matmul", -1, "fp32"},
		{"volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", "matmul", 1, "fp16"},
		{"volta_h884gemm_64x64_ldg8_nn", "matmul", 1, "fp16"},
		{"turing_fp16_s1688gemm_fp16_256x64_ldg8_f2f_tn", "matmul", 1, "fp16"},
		{"ampere_sgemm_128x64_nn", "matmul", -1, "fp32"},
		{"ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "matmul", 1, "fp16"},
		{"ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn", "matmul", 1, "bf16"},
		{"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas", "matmul", 1, "tf32"},
		{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", "matmul", 1, "bf16"},
		{"nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", "matmul", 1, "fp16"},
		{"nvjet_tst_256x128_64x4_1x2_h_bz_coopB_TNN", "matmul", 1, "bf16"},
		{"nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT", "matmul", 1, "bf16"},
		{"void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, false, __nv_bfloat16>", "matmul", 0, "bf16"},
		{"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", "matmul", -1, "fp32"},
		{"void gemmk1_kernel<int, float, 256, 5, false, false>", "matmul", -1, "fp32"},
		{"void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>>>", "matmul", -1, "fp32"},
		// CUTLASS, DeepGEMM, Triton
		{"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>", "matmul", 1, "bf16"},
		{"void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>", "matmul", -1, "fp32"},
		{"cutlass3x_sm100_tensorop_s128x256x16gemm_bf16_bf16_f32_void_bf16_128x256x64_0_tnn_align8", "matmul", 1, "bf16"},
		{"void deep_gemm::fp8_gemm_kernel<7168u, 4096u, 128u, 128u, 128u, 1u, 8u>", "matmul", 1, "fp8"},
		{"triton_tem_fused_addmm_3", "matmul", 0, ""},
		{"_grouped_mm_kernel", "matmul", 0, ""},
		{"fused_moe_kernel", "matmul", 0, ""},
		{"void marlin::Marlin<half, 256, 1, 8, 8, 4, 8>", "matmul", 1, "fp16"},
		// cuDNN
		{"sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nchw_tilesize128x128x32_stage3_warpsize2x2x1_g1_tensor16x8x16_execute_kernel_cudnn", "conv", 1, "fp16"},
		{"sm86_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16", "conv", 1, "tf32"},
		{"void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>", "conv", -1, "fp32"},
		{"ampere_scudnn_128x64_relu_xregs_large_nn_v1", "conv", -1, "fp32"},
		{"void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, false, false, 0, 0, int, float, float>", "conv", 0, "fp32"},
		{"void cask_cudnn::computeOffsetsKernel<false, false>(cask_cudnn::ComputeOffsetsParams)", "conv", 0, ""},
		{"void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>", "copy-cast", 0, "fp16"},
		{"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "norm", 0, "fp32"},
		{"void cudnn::batchnorm_bwtr_nhwc_semiPersist<__half, float, float, 512, true, 1, 2>", "norm", 0, "fp16"},
		{"void cudnn::ops::op_tensor_kernel<2, float, float, float, 256>", "elementwise", 0, "fp32"},
		// attention
		{"void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t>>", "attention", 1, "fp16"},
		{"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false, cutlass::bfloat16_t>>", "attention", 1, "bf16"},
		{"void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<128>>", "attention", 1, ""},
		{"void fmha_fwd_loop_kernel<FMHA_kernel_traits<256, 64, 16, 1, 4, 8>, true, false>", "attention", 1, ""},
		{"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>", "attention", 1, ""},
		{"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)", "attention", 1, "bf16"},
		{"fmha_cutlassB_f16_aligned_64x64_k64_sm80", "attention", 1, "fp16"},
		{"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_128x128x128_4x1x1_cga1x1x1_kernel0_0", "attention", 1, "fp16"},
		{"cudnn_generated_fort_native_sdpa_sm100_flash_bprop_f16_knob_7_kernel0_0", "attention", 1, "fp16"},
		{"void attention_kernel_batched_impl<AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::half_t>>", "attention", 0, "fp16"},
		{"_attn_fwd", "attention", 0, ""},
		{"triton_tem_fused_flex_attention_2", "attention", 0, ""},
		{"_ZN5aiter24fmha_fwd_hd128_bf16_causalE", "attention", 1, "bf16"},
		{"void vllm::paged_attention_v2_kernel<__half, __half, 128, 16, 128>", "attention", 0, "fp16"},
		{"void flashinfer::BatchPrefillWithPagedKVCacheKernel<>", "attention", 0, ""},
		// Transformer Engine, apex and others
		{"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<>", "norm", 0, ""},
		{"void transformer_engine::layer_norm::ln_fwd_tuned_kernel<>", "norm", 0, ""},
		{"void transformer_engine::cast_transpose_fused_kernel<>", "copy-cast", 0, ""},
		{"void transformer_engine::(anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward<>", "reduce", 0, ""},
		{"void cuApplyLayerNorm<float, float, c10::BFloat16>", "norm", 0, "bf16"},
		{"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>>", "optimizer", 0, "fp32"},
		{"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>>", "optimizer", 0, ""},
		{"void kOptimizerStatic8bit1State<float, 1>", "optimizer", 0, "fp32"},
		{"void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>", "copy-cast", 0, "fp8"},
		{"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>", "copy-cast", 0, "bf16"},
		{"void moe::dev::routing::routingIndicesHistogramKernel<>", "reduce", 0, ""},
		// state space models
		{"void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, true, true, true>>", "reduce", 0, ""},
		{"_chunk_scan_fwd_kernel", "reduce", 0, ""},
		{"_chunk_state_fwd_kernel", "reduce", 0, ""},
		{"void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true>>", "conv", 0, ""},
		// ATen and inductor
		{"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "elementwise", 0, "fp32"},
		{"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>", "copy-cast", 0, ""},
		{"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>", "reduce", 0, "fp32"},
		{"void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>", "reduce", 0, "fp32"},
		{"void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>", "elementwise", 0, "bf16"},
		{"void at::native::vectorized_gather_kernel<16, long>", "elementwise", 0, ""},
		{"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", "reduce", 0, "fp32"},
		{"void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800>", "reduce", 0, ""},
		{"triton_poi_fused_add_mul_silu_4", "elementwise", 0, ""},
		{"triton_red_fused_native_layer_norm_2", "norm", 0, ""},
		{"triton_per_fused__softmax_1", "reduce", 0, ""},
		{"triton__0d1d2d3d4d5d6d", "elementwise", 0, ""},
		// AMD
		{"Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB0", "matmul", 1, "bf16"},
		{"Cijk_Ailk_Bljk_SB_MT64x64x16_SE_TT4_4_WG16_16_1", "matmul", -1, "fp32"},
		{"Cijk_Alik_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "matmul", 1, "fp16"},
		{"void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<>>", "matmul", 1, ""},
		{"igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32_wt32x32x8", "conv", 1, "fp16"},
		{"miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", "conv", 0, "fp32"},
		{"MIOpenBatchNormFwdTrainSpatial", "norm", 0, ""},
		{"void ck_tile::kentry<512, 2, ck_tile::FmhaFwdKernel<>>", "attention", 1, ""},
	} {
		k := tab.Kernel(c.name)
		if k.Class.String() != c.class || k.TensorCore != c.tensor || k.DType != c.dtype {
			t.Errorf("%s: %s, tensor cores %d, %q; want %s, %d, %q", c.name, k.Class, k.TensorCore, k.DType, c.class, c.tensor, c.dtype)
		}
	}
}
