/* A small PMIx client whose sessions are recorded (record_test.go): each request that the
 * server knows, once. Usage: client [spawn PROGRAM]; with NODES set its ranks may be on
 * several hosts. Built against the headers and the library of the release to be recorded:
 *   cc -I INCLUDE client.c -o client -L LIB -lpmix */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static volatile int events, registered;

static void check(const char *what, pmix_status_t rc) {
  if (rc != PMIX_SUCCESS) {
    fprintf(stderr, "rank %u: %s: %s (%d)\n", me.rank, what, PMIx_Error_string(rc), rc);
    exit(1);
  }
}
static void on_event(size_t id, pmix_status_t st, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t *res, size_t nres, pmix_event_notification_cbfunc_fn_t cb, void *cbdata) {
  (void)id;(void)st;(void)source;(void)info;(void)ninfo;(void)res;(void)nres;
  events++;
  if (cb) cb(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}
static void reg(pmix_status_t st, size_t id, void *d) { (void)id;(void)d; registered = st == PMIX_SUCCESS ? 1 : -1; }

/* names publishes, looks up what the next rank publishes, and unpublishes. */
static void names(uint32_t size) {
  char key[64];
  pmix_info_t info[2]; pmix_pdata_t pd; char *keys[2] = {key, NULL};
  pmix_persistence_t keep = PMIX_PERSIST_SESSION; int timeout = 20;
  snprintf(key, sizeof key, "name-%u", me.rank);
  PMIX_INFO_LOAD(&info[0], key, "value", PMIX_STRING);
  PMIX_INFO_LOAD(&info[1], PMIX_PERSISTENCE, &keep, PMIX_PERSIST);
  check("publish", PMIx_Publish(info, 2));
  PMIX_PDATA_CONSTRUCT(&pd);
  snprintf(pd.key, sizeof pd.key, "name-%u", (me.rank + 1) % size);
  PMIX_INFO_LOAD(&info[0], PMIX_WAIT, NULL, PMIX_BOOL);
  PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout, PMIX_INT);
  check("lookup", PMIx_Lookup(&pd, 1, info, 2));
  if (pd.value.type != PMIX_STRING || strcmp(pd.value.data.string, "value") || pd.proc.rank != (me.rank + 1) % size) check("lookup's answer", PMIX_ERROR);
  check("fence", PMIx_Fence(NULL, 0, NULL, 0));
  check("unpublish", PMIx_Unpublish(keys, NULL, 0));
  check("fence", PMIx_Fence(NULL, 0, NULL, 0));
  if (PMIx_Lookup(&pd, 1, NULL, 0) == PMIX_SUCCESS) check("lookup of none", PMIX_ERROR);
}
/* meet has all ranks connect, disconnect, and make a group. */
static void meet(uint32_t size) {
  pmix_proc_t all[64];
  for (uint32_t i = 0; i < size; i++) { memcpy(all[i].nspace, me.nspace, sizeof me.nspace); all[i].rank = i; }
  check("connect", PMIx_Connect(all, size, NULL, 0));
  check("disconnect", PMIx_Disconnect(all, size, NULL, 0));
#if PMIX_VERSION_MAJOR >= 4
  pmix_info_t info[2], *res = NULL; size_t nres = 0; bool yes = true, got = false;
  size_t ctx = 0;
  PMIX_INFO_LOAD(&info[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
  check("group construct", PMIx_Group_construct("a group", all, size, info, 1, &res, &nres));
  for (size_t i = 0; i < nres; i++) if (!strcmp(res[i].key, PMIX_GROUP_CONTEXT_ID)) { got = true; ctx = res[i].value.data.size; }
  if (!got || ctx < 1000) check("group's number", PMIX_ERROR);
  check("group destruct", PMIx_Group_destruct("a group", NULL, 0));
#endif
}
/* notify has rank 0 tell the others of an event. */
static void notify(uint32_t size) {
  pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 7;
  pmix_info_t none;
  PMIX_INFO_LOAD(&none, PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
  PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, reg, NULL);
  while (!registered) usleep(1000);
  check("fence", PMIx_Fence(NULL, 0, NULL, 0));
  if (me.rank == 0) check("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, &none, 1, NULL, NULL));
  while (!events && size > 1 && me.rank) usleep(1000);
  check("fence", PMIx_Fence(NULL, 0, NULL, 0));
}
/* PMIx 3 reads whole keys. */
static pmix_key_t card = "card", far = "far", near = "near", none = "none", job_size = PMIX_JOB_SIZE;

/* data commits, and gets what the next rank has committed. */
static void data(uint32_t size) {
  pmix_value_t v, *got; pmix_info_t collect; bool yes = true; pmix_proc_t peer = me;
  v.type = PMIX_STRING; v.data.string = "card";
  check("put", PMIx_Put(PMIX_GLOBAL, card, &v));
  v.type = PMIX_UINT32; v.data.uint32 = me.rank;
  check("put", PMIx_Put(PMIX_REMOTE, far, &v));
  check("put", PMIx_Put(PMIX_LOCAL, near, &v));
  check("commit", PMIx_Commit());
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  memcpy(peer.nspace, me.nspace, sizeof me.nspace); peer.rank = PMIX_RANK_WILDCARD;
  check("fence", PMIx_Fence(&peer, 1, &collect, 1));
  peer.rank = (me.rank + 1) % size;
  check("get", PMIx_Get(&peer, card, NULL, 0, &got));
  if (!getenv("NODES")) check("get near", PMIx_Get(&peer, near, NULL, 0, &got));
  if (!getenv("NODES") && got->data.uint32 != peer.rank) check("get near's answer", PMIX_ERROR);
  PMIX_INFO_LOAD(&collect, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
  if (PMIx_Get(&peer, none, &collect, 1, &got) == PMIX_SUCCESS) check("get of none", PMIX_ERROR);
}
/* spawn asks for two ranks of a program. */
static void spawn(char *prog) {
  pmix_app_t app; pmix_nspace_t ns; char *argv[] = {prog, "one", "a b", NULL}, *env[] = {"COLOUR=red", NULL};
  memset(&app, 0, sizeof app);
  app.cmd = prog; app.argv = argv; app.env = env; app.maxprocs = 2; app.cwd = "/tmp";
  pmix_info_t job, hosts;
  PMIX_INFO_LOAD(&job, PMIX_MAPBY, "core", PMIX_STRING);
  PMIX_INFO_LOAD(&hosts, PMIX_HOST, "localhost:2", PMIX_STRING);
  app.info = &hosts; app.ninfo = 1;
  check("spawn", PMIx_Spawn(&job, 1, &app, 1, ns));
}
int main(int argc, char **argv) {
  pmix_value_t *v; pmix_proc_t job; uint32_t size;
  check("init", PMIx_Init(&me, NULL, 0));
  job = me; job.rank = PMIX_RANK_WILDCARD;
  check("get size", PMIx_Get(&job, job_size, NULL, 0, &v));
  size = v->data.uint32;
  data(size);
  names(size);
  meet(size);
  notify(size);
  if (argc > 2 && me.rank == 0) spawn(argv[2]);
  check("finalize", PMIx_Finalize(NULL, 0));
  return 0;
}
