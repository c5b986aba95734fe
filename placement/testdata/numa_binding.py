"""Answers where PyTorch's --numa-binding would put the worker of each GPU, on machines that are described on standard input.

Input: {"module": path of torch/numa/binding.py, "cases": [{"mode", "gpus": NUMA node of each GPU, "allowed": [CPU, ...],
"cpus": {CPU: {"core", "cache", "node", "package"}}}, ...]}. Output: a list with, for each case, the CPUs of each GPU's worker as a
list, or one string, the error. PyTorch itself is not imported: its functions that look at the machine are replaced.
"""

import importlib.util
import json
import sys
import types

request = json.load(sys.stdin)
internal = types.ModuleType("torch._utils_internal")
internal.signpost_event = lambda **_: None
sys.modules.update({"torch": types.ModuleType("torch"), "torch._utils_internal": internal})
spec = importlib.util.spec_from_file_location("binding", request["module"])
binding = importlib.util.module_from_spec(spec)
sys.modules["binding"] = binding
spec.loader.exec_module(binding)


def answer(case):
    cpus = {int(number): cpu for number, cpu in case["cpus"].items()}

    def like(kind):
        return lambda *, logical_cpu_index: {n for n, cpu in cpus.items() if cpu[kind] == cpus[logical_cpu_index][kind]}

    binding._get_device_count = lambda: len(case["gpus"])
    binding._get_numa_node_index_for_device_index = lambda *, device_index: case["gpus"][device_index]
    binding._get_allowed_cpu_indices_for_current_thread = lambda: set(case["allowed"])
    binding._get_cpu_indices_for_numa_node_MAYBE_NOT_ALLOWED = lambda *, numa_node_index: {
        n for n, cpu in cpus.items() if cpu["node"] == numa_node_index
    }
    binding._get_logical_cpu_indices_sharing_same_physical_core_as = like("core")
    binding._get_logical_cpus_sharing_same_max_level_cache_as = like("cache")
    binding._get_socket_index_for_cpu = lambda *, cpu_index: cpus[cpu_index]["package"]
    binding._get_systemwide_numa_node_indices = lambda: {cpu["node"] for n, cpu in cpus.items() if n in case["allowed"]}
    options = binding.NumaOptions(affinity_mode=binding.AffinityMode(case["mode"]))
    try:
        return [
            binding._get_ranges_str_from_ints(binding._get_logical_cpus_to_bind_to(device_index=i, numa_options=options))
            for i in range(len(case["gpus"]))
        ]
    except RuntimeError as error:
        return str(error)


json.dump([answer(case) for case in request["cases"]], sys.stdout)
