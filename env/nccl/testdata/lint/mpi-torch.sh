#!/bin/bash
# Settings of a text on MPI with PyTorch.
# want: NCCL_DEBUG debugging
# want: OMPI_MCA_coll caution
# want: OMPI_MCA_btl_sm_use_knem dead
# want: OMPI_MCA_btl_sm_eager_limit caution
export OMPI_MCA_pml=ucx
export OMPI_MCA_btl_tcp_if_include=eth0
mpirun -np 4 -H h1,h2,h3,h4 -bind-to none -map-by slot \
    -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH \
    -x MASTER_ADDR=h1 -x MASTER_PORT=29500 python pytorch_mpi_example.py
export OMPI_MCA_coll=tuned
export OMPI_MCA_btl_sm_use_knem=1
export OMPI_MCA_btl_sm_eager_limit=32768
mpirun --mca hwloc_base_binding_policy numa --bind-to core ./app
