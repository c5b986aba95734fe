/* Prints the objects of a topology, one a line: type, os_index, cpuset, nodeset. The topology is that of an XML file, or,
   without one, of what hwloc discovers. "all" has what the cpuset does not allow, too. */
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *content(const char *name, long *size) {
  FILE *f = fopen(name, "r");
  if (!f || fseek(f, 0, SEEK_END) || (*size = ftell(f)) < 0) exit(3);
  rewind(f);
  char *text = calloc(1, ++*size); /* the null byte counts */
  if (!text || fread(text, 1, *size - 1, f) != (size_t)*size - 1) exit(3);
  fclose(f);
  return text;
}

static void print_depth(hwloc_topology_t t, int depth) {
  for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_depth(t, depth, o));) {
    char *cpus, *complete, *nodes;
    hwloc_bitmap_list_asprintf(&cpus, o->cpuset);
    hwloc_bitmap_list_asprintf(&complete, o->complete_cpuset);
    hwloc_bitmap_list_asprintf(&nodes, o->nodeset);
    printf("%s %d cpus=%s complete=%s nodes=%s", hwloc_obj_type_string(o->type), (int)o->os_index, cpus, complete, nodes);
    if (hwloc_obj_type_is_cache(o->type))
      printf(" size=%llu depth=%u line=%u ways=%d type=%d", (unsigned long long)o->attr->cache.size, o->attr->cache.depth, o->attr->cache.linesize,
             o->attr->cache.associativity, o->attr->cache.type);
    if (o->type == HWLOC_OBJ_NUMANODE) printf(" memory=%llu", (unsigned long long)o->attr->numanode.local_memory);
    printf("\n");
    free(cpus), free(complete), free(nodes);
  }
}

int main(int argc, char **argv) {
  hwloc_topology_t t;
  long size;
  if (argc < 2 || hwloc_topology_init(&t)) return 2;
  if (!strcmp(argv[1], "all")) hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (argc > 2) {
    char *text = content(argv[2], &size);
    if (hwloc_topology_set_xmlbuffer(t, text, (int)size)) return 4;
  }
  if (hwloc_topology_load(t)) return 5;
  hwloc_topology_check(t); /* aborts where something is wrong */
  for (int depth = 0; depth < hwloc_topology_get_depth(t); depth++) print_depth(t, depth);
  print_depth(t, HWLOC_TYPE_DEPTH_NUMANODE);
  hwloc_topology_destroy(t);
  return 0;
}
