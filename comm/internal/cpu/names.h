// This C code is linked into other people's programs, next to other people's C: every name that the linker sees begins with gorun_. What Go calls is
// spelled so; the rest is renamed here, to stay readable.
#ifndef GORUN_NAMES_H
#define GORUN_NAMES_H

#define announcement_read gorun_cpu_announcement_read
#define call_settle gorun_cpu_call_settle
#define copy gorun_cpu_copy
#define copy_fence gorun_cpu_copy_fence
#define direct_call gorun_cpu_direct_call
#define dtype_size gorun_cpu_dtype_size
#define fail_between gorun_cpu_fail_between
#define fail_gone gorun_cpu_fail_gone
#define fail_mismatch gorun_cpu_fail_mismatch
#define fail_with gorun_cpu_fail_with
#define flat_allreduce gorun_cpu_flat_allreduce
#define flat_reduce gorun_cpu_flat_reduce
#define flow_from gorun_cpu_flow_from
#define flow_to gorun_cpu_flow_to
#define hosts_allgather gorun_cpu_hosts_allgather
#define hosts_allreduce gorun_cpu_hosts_allreduce
#define hosts_alltoall gorun_cpu_hosts_alltoall
#define hosts_barrier gorun_cpu_hosts_barrier
#define hosts_broadcast gorun_cpu_hosts_broadcast
#define hosts_buffer gorun_cpu_hosts_buffer
#define hosts_free gorun_cpu_hosts_free
#define hosts_gather gorun_cpu_hosts_gather
#define hosts_late gorun_cpu_hosts_late
#define hosts_message gorun_cpu_hosts_message
#define hosts_reduce gorun_cpu_hosts_reduce
#define hosts_reducescatter gorun_cpu_hosts_reducescatter
#define hosts_scatter gorun_cpu_hosts_scatter
#define kernels_avx2 gorun_cpu_kernels_avx2
#define kernels_avx512 gorun_cpu_kernels_avx512
#define kernels_name gorun_cpu_kernels_name
#define kernels_neon gorun_cpu_kernels_neon
#define kernels_plain gorun_cpu_kernels_plain
#define kernels_select gorun_cpu_kernels_select
#define line_differs gorun_cpu_line_differs
#define line_room gorun_cpu_line_room
#define net_run gorun_cpu_net_run
#define now_ns gorun_cpu_now_ns
#define pair_alltoallv gorun_cpu_pair_alltoallv
#define pair_gatherv gorun_cpu_pair_gatherv
#define pair_recv gorun_cpu_pair_recv
#define pair_scatterv gorun_cpu_pair_scatterv
#define pair_send gorun_cpu_pair_send
#define pair_sendrecv gorun_cpu_pair_sendrecv
#define reduce gorun_cpu_reduce
#define ring_allgather gorun_cpu_ring_allgather
#define ring_alltoall gorun_cpu_ring_alltoall
#define ring_broadcast gorun_cpu_ring_broadcast
#define ring_gather gorun_cpu_ring_gather
#define ring_reducescatter gorun_cpu_ring_reducescatter
#define ring_room gorun_cpu_ring_room
#define ring_scatter gorun_cpu_ring_scatter
#define shelf_open gorun_cpu_shelf_open
#define run_local gorun_cpu_run_local
#define run_over_hosts gorun_cpu_run_over_hosts
#define sliced_allreduce gorun_cpu_sliced_allreduce
#define sliced_reduce gorun_cpu_sliced_reduce
#define small_agree gorun_cpu_small_agree
#define small_allgather gorun_cpu_small_allgather
#define small_allreduce gorun_cpu_small_allreduce
#define small_alltoall gorun_cpu_small_alltoall
#define small_barrier gorun_cpu_small_barrier
#define small_broadcast gorun_cpu_small_broadcast
#define small_gather gorun_cpu_small_gather
#define small_nothing gorun_cpu_small_nothing
#define small_reduce gorun_cpu_small_reduce
#define small_reducescatter gorun_cpu_small_reducescatter
#define small_scatter gorun_cpu_small_scatter
#define verify_until gorun_cpu_verify_until
#define wait_slowly gorun_cpu_wait_slowly
#define wake_waiting gorun_cpu_wake_waiting
#define whole_differs gorun_cpu_whole_differs

#endif
