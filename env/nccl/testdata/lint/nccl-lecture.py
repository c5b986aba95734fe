# Settings of a lecture on NCCL: functions that choose by network and by model.
# want: NCCL_DEBUG debugging
# want: NCCL_DEBUG_SUBSYS debugging
# want: NCCL_IB_DISABLE default
# want: NCCL_IB_HCA caution
# want: NCCL_IB_GID_INDEX caution
# want: NCCL_NET_GDR_LEVEL legacy
# want: NCCL_NET_GDR_LEVEL caution
# want: NCCL_SOCKET_IFNAME caution
# want: NCCL_P2P_DISABLE default
# want: NCCL_SHM_DISABLE default
# want: NCCL_IB_DISABLE caution
# want: NCCL_ALGO caution
# want: NCCL_PROTO caution
# want: NCCL_MIN_NCHANNELS old name
# want: NCCL_MAX_NCHANNELS old name
# want: NCCL_ALGO caution
# want: NCCL_PROTO caution
# want: NCCL_TIMEOUT never
# want: NCCL_P2P_LEVEL caution
# want: NCCL_P2P_LEVEL caution
# want: NCCL_CROSS_NIC caution
import os


def configure(has_infiniband):
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "ALL"
    if has_infiniband:
        os.environ["NCCL_IB_DISABLE"] = "0"
        os.environ["NCCL_IB_HCA"] = "mlx5_0,mlx5_1"
        os.environ["NCCL_IB_GID_INDEX"] = "3"
        os.environ["NCCL_NET_GDR_LEVEL"] = "5"
        os.environ["NCCL_IB_TIMEOUT"] = "22"
        os.environ["NCCL_SOCKET_IFNAME"] = "ib0"
        os.environ["NCCL_P2P_DISABLE"] = "0"
        os.environ["NCCL_SHM_DISABLE"] = "0"
    else:
        os.environ["NCCL_IB_DISABLE"] = "1"
        os.environ["NCCL_SOCKET_IFNAME"] = "eth0"


def tune(model_gb, network):
    env = {
        "NCCL_ALGO": "Tree",
        "NCCL_PROTO": "LL128" if network == "ib" else "Simple",
        "NCCL_MIN_NCHANNELS": "4",
        "NCCL_MAX_NCHANNELS": str(32),
    }
    if model_gb > 10:
        os.environ.setdefault("NCCL_ALGO", "Ring")
        os.environ.setdefault("NCCL_PROTO", "Simple")
    os.environ.update(env)
    os.environ.update({"NCCL_TIMEOUT": "300", "NCCL_TOPO_FILE": "/etc/topo.xml"})


def links(nvlink):
    if nvlink:
        os.environ["NCCL_P2P_LEVEL"] = "NVL"
    else:
        os.environ["NCCL_P2P_LEVEL"] = "SYS"
    os.environ["NCCL_CROSS_NIC"] = "1"
