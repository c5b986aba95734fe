// This C code is linked into other people's programs, next to other people's C: every name that the linker sees begins with gorun_. What Go calls is
// spelled so; the rest is renamed here, to stay readable.
#ifndef GORUN_NAMES_H
#define GORUN_NAMES_H

#define announcement_read gorun_announcement_read
#define call_settle gorun_call_settle
#define copy gorun_copy
#define copy_fence gorun_copy_fence
#define direct_call gorun_direct_call
#define dtype_size gorun_dtype_size
#define fail_between gorun_fail_between
#define fail_gone gorun_fail_gone
#define fail_mismatch gorun_fail_mismatch
#define fail_with gorun_fail_with
#define flat_allreduce gorun_flat_allreduce
#define flat_reduce gorun_flat_reduce
#define flow_from gorun_flow_from
#define flow_to gorun_flow_to
#define hosts_allgather gorun_hosts_allgather
#define hosts_allreduce gorun_hosts_allreduce
#define hosts_alltoall gorun_hosts_alltoall
#define hosts_barrier gorun_hosts_barrier
#define hosts_broadcast gorun_hosts_broadcast
#define hosts_buffer gorun_hosts_buffer
#define hosts_free gorun_hosts_free
#define hosts_gather gorun_hosts_gather
#define hosts_late gorun_hosts_late
#define hosts_message gorun_hosts_message
#define hosts_reduce gorun_hosts_reduce
#define hosts_reducescatter gorun_hosts_reducescatter
#define hosts_scatter gorun_hosts_scatter
#define kernels_avx2 gorun_kernels_avx2
#define kernels_avx512 gorun_kernels_avx512
#define kernels_name gorun_kernels_name
#define kernels_neon gorun_kernels_neon
#define kernels_plain gorun_kernels_plain
#define kernels_select gorun_kernels_select
#define line_differs gorun_line_differs
#define line_room gorun_line_room
#define net_run gorun_net_run
#define now_ns gorun_now_ns
#define pair_alltoallv gorun_pair_alltoallv
#define pair_gatherv gorun_pair_gatherv
#define pair_recv gorun_pair_recv
#define pair_scatterv gorun_pair_scatterv
#define pair_send gorun_pair_send
#define pair_sendrecv gorun_pair_sendrecv
#define reduce gorun_reduce
#define ring_allgather gorun_ring_allgather
#define ring_alltoall gorun_ring_alltoall
#define ring_broadcast gorun_ring_broadcast
#define ring_gather gorun_ring_gather
#define ring_reducescatter gorun_ring_reducescatter
#define ring_room gorun_ring_room
#define ring_scatter gorun_ring_scatter
#define run_local gorun_run_local
#define run_over_hosts gorun_run_over_hosts
#define sliced_allreduce gorun_sliced_allreduce
#define sliced_reduce gorun_sliced_reduce
#define small_allgather gorun_small_allgather
#define small_allreduce gorun_small_allreduce
#define small_alltoall gorun_small_alltoall
#define small_barrier gorun_small_barrier
#define small_broadcast gorun_small_broadcast
#define small_gather gorun_small_gather
#define small_nothing gorun_small_nothing
#define small_reduce gorun_small_reduce
#define small_reducescatter gorun_small_reducescatter
#define small_scatter gorun_small_scatter
#define wait_slowly gorun_wait_slowly
#define wake_waiting gorun_wake_waiting
#define whole_differs gorun_whole_differs

#endif
