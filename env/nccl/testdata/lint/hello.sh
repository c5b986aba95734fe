# Settings of a course on NCCL on a cluster: none is wrong.
torchrun --nproc_per_node=4 --nnodes=1 --rdzv_backend=static --master_addr=localhost --master_port=12345 main.py
srun --export=ALL,CUDA_VISIBLE_DEVICES=0 torchrun main.py
