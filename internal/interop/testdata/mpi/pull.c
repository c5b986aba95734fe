// pull: rank 0 pulls what the other ranks print, and tells it once it has all.
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char received[4][1 << 10]; // by rank, both channels
static volatile unsigned missing;

static void receive(size_t handler, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *text,
                 pmix_info_t info[], size_t ninfo)
{
    (void)handler, (void)info, (void)ninfo;
    size_t at = strlen(received[source->rank]);
    for (size_t i = 0; i < text->size; i++) {
        if (text->bytes[i] == '\n') {
            at += sprintf(received[source->rank] + at, " (%d),", channel);
            missing--;
        } else {
            received[source->rank][at++] = text->bytes[i];
        }
    }
}

int main(void)
{
    pmix_proc_t me, all;
    pmix_value_t *size;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 1;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size) != PMIX_SUCCESS) return 2;
    unsigned ranks = size->data.uint32;
    if (me.rank == 1) {
        printf("early\n"), fflush(stdout);
    }
    missing = 2 * (ranks - 1) + 1;
    if (me.rank == 0 && PMIx_IOF_pull(&all, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, receive, NULL,
                                      NULL) < 0) return 3;
    PMIx_Fence(&all, 1, NULL, 0);
    if (me.rank != 0) {
        printf("out\n"), fflush(stdout);
        fprintf(stderr, "err\n");
    }
    for (int i = 0; me.rank == 0 && missing > 0 && i < 6000; i++) usleep(10000);
    for (unsigned rank = 1; me.rank == 0 && rank < ranks; rank++) printf("from %u: %s\n", rank, received[rank]);
    PMIx_Fence(&all, 1, NULL, 0);
    return PMIx_Finalize(NULL, 0);
}
