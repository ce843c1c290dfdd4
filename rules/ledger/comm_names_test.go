package ledger

import "testing"

// Kernels of every library that moves data between GPUs, as their makers name them.
func TestCommunicationKernelNames(t *testing.T) {
	tab := tables(t)
	for name, want := range map[string]string{
		"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)":                                "all-reduce",
		"ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)":   "reduce-scatter",
		"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)":     "all-gather",
		"ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)":     "broadcast",
		"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)":  "send-recv",
		"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)":          "all-reduce",
		"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)":      "reduce-scatter",
		"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)":                   "all-gather",
		"ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)":              "reduce",
		"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)":                            "send-recv",
		"ncclSymkDevKernel_AllReduce_AGxLLMC_R_sum_bf16(ncclSymkDevWorkArgs4K)":               "all-reduce",
		"ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16(ncclSymkDevWorkArgs4K)":                "reduce-scatter",
		"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)":                           "unknown",
		"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>":                             "all-reduce",
		"void multimem_all_reduce_kernel<c10::BFloat16, 16>":                                  "all-reduce",
		"void c10d::symmetric_memory::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>": "all-reduce",
		"void two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>":                               "all-reduce",
		"multimem_all_gather_kernel<16>":                                                      "all-gather",
		"void deep_ep::intranode::dispatch<8, 768, 8192>":                                     "all-to-all",
		"void deep_ep::internode_ll::combine<true, 7168, 9, 3>":                               "all-to-all",
		"nvshmemi_barrier_all":       "barrier",
		"void nvshmemi_transfer_put": "other",
	} {
		k := tab.Kernel(name)
		if !k.Comm || k.Primitive != want {
			t.Errorf("%s: communication %v, %s, want %s", name, k.Comm, k.Primitive, want)
		}
	}
	for _, name := range []string{"void at::native::reduce_kernel<512, 1>", "void cub::DeviceReduceKernel", "sm90_xmma_gemm_bf16bf16", "void at::native::vectorized_gather_kernel<16, long>"} {
		if k := tab.Kernel(name); k.Comm {
			t.Errorf("%s is no communication, but %s", name, k.Primitive)
		}
	}
}
