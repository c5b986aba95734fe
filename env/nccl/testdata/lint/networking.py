# Settings of a chapter on distributed networking.
# want: NCCL_DEBUG debugging
# want: NCCL_IB_DISABLE default
# want: NCCL_IB_GID_INDEX caution
# want: NCCL_NET_GDR_LEVEL legacy
# want: NCCL_NET_GDR_LEVEL caution
# want: NCCL_NTHREADS value
# want: NCCL_TIMEOUT never
import os

os.environ["NCCL_DEBUG"] = "INFO"
os.environ["NCCL_IB_DISABLE"] = "0"
os.environ["NCCL_IB_GID_INDEX"] = "3"
os.environ["NCCL_NET_GDR_LEVEL"] = "3"
os.environ["NCCL_BUFFSIZE"] = "8388608"
os.environ["NCCL_NTHREADS"] = "16"
os.environ["NCCL_TIMEOUT"] = "3600000"
