#!/bin/bash
# Settings of a text on RCCL with PyTorch's DDP, a block for each node.
# want: RCCL_BUFFSIZE never
# want: RCCL_ALLREDUCE_ALGO never
# want: RCCL_SOCKET_IFNAME never
# want: RCCL_ALLREDUCE_ELEMENTS_THRESHOLD never
# want: RCCL_DIRECT never
# want: RCCL_SHM_DISABLE never
# want: RCCL_MEMPOOL_DISABLE never
export MASTER_ADDR=10.0.0.1 MASTER_PORT=12355
export WORLD_SIZE=4
export RANK=0 LOCAL_RANK=0
export HIP_VISIBLE_DEVICES=0,1,2,3
export RCCL_BUFFSIZE=67108864
export RCCL_ALLREDUCE_ALGO=ring
export RCCL_SOCKET_IFNAME=ib0
export RCCL_ALLREDUCE_ELEMENTS_THRESHOLD=1048576
export RCCL_DIRECT=1
export RCCL_SHM_DISABLE=0
RCCL_MEMPOOL_DISABLE=1 python -m torch.distributed.launch --nproc_per_node=4 train.py
