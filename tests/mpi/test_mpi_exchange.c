/* Exchanges between the processes that mpirun starts. Every rank derives all messages from the same
 * draws, so that it knows what must arrive. The number of ranks is the argument. */
#include "ranks.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_RANKS = 4, N_EXCHANGES = 5, N_ROUNDS = 20, MAX_MESSAGES = 64, MAX_BYTES = 300000 };
static const uint64_t seed = 20260607;

static const ls__comm_provider *provider(void)
{
    return checked->comm->provider;
}

/* ---- Random messages ---- */

typedef struct plan {
    int n, from[MAX_MESSAGES], to[MAX_MESSAGES];
    size_t bytes[MAX_MESSAGES];
    ls__message sends[MAX_MESSAGES], receives[MAX_MESSAGES];
    int send_of[MAX_MESSAGES], receive_of[MAX_MESSAGES]; /* message numbers */
    int n_sends, n_receives;
    ls__exchange *exchange;
} plan;

static uint32_t draw(uint32_t exchange, uint32_t i, uint32_t what)
{
    uint64_t x = seed + exchange * 1000003u + i * 101u + what; /* splitmix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 33);
}

static unsigned char byte_of(int exchange, int message, int round, size_t at)
{
    return (unsigned char)(31 * exchange + 7 * message + 13 * round +
                           (int)(at * 2654435761u >> 24));
}

/* Exchange 0 has no messages of rank 0, exchange 1 none at all. */
static void make_plan(plan *p, int number)
{
    const ls__comm *comm = checked->comm;
    const uint32_t n_ranks = (uint32_t)comm->n_ranks, e = (uint32_t)number;
    memset(p, 0, sizeof(*p));
    p->n = number == 1 ? 0 : 1 + (int)(draw(e, 0, 0) % MAX_MESSAGES);
    for (int i = 0; i < p->n; i++) {
        p->from[i] = (int)(draw(e, (uint32_t)i, 1) % n_ranks);
        p->to[i] = (int)(draw(e, (uint32_t)i, 2) % n_ranks);
        p->bytes[i] = 1 + draw(e, (uint32_t)i, 3) % (i % 3 ? 200 : MAX_BYTES);
        if (number == 0 && (p->from[i] == 0 || p->to[i] == 0)) continue;
        if (p->from[i] == comm->rank) {
            p->send_of[p->n_sends] = i;
            p->sends[p->n_sends++] = (ls__message){ p->to[i], malloc(p->bytes[i]), p->bytes[i] };
        }
        if (p->to[i] == comm->rank) {
            p->receive_of[p->n_receives] = i;
            p->receives[p->n_receives++] =
                (ls__message){ p->from[i], malloc(p->bytes[i]), p->bytes[i] };
        }
    }
    CHECK(provider()->exchange_open(checked->comm, p->sends, p->n_sends, p->receives, p->n_receives,
                                    &p->exchange) == LS_OK);
}

static void start(plan *p, int number, int round)
{
    for (int i = 0; i < p->n_sends; i++)
        for (size_t at = 0; at < p->sends[i].bytes; at++)
            ((unsigned char *)p->sends[i].data)[at] = byte_of(number, p->send_of[i], round, at);
    for (int i = 0; i < p->n_receives; i++) memset(p->receives[i].data, 0, p->receives[i].bytes);
    CHECK(provider()->exchange_start(p->exchange) == LS_OK);
}

static void check_received(const plan *p, int number, int round)
{
    for (int r = 0; r < checked->comm->n_ranks; r++)
        CHECK(provider()->exchange_has_arrived(p->exchange, r));
    for (int i = 0; i < p->n_receives; i++)
        for (size_t at = 0; at < p->receives[i].bytes; at++)
            CHECK(((unsigned char *)p->receives[i].data)[at] ==
                  byte_of(number, p->receive_of[i], round, at));
}

static void close_plan(plan *p)
{
    provider()->exchange_close(p->exchange);
    for (int i = 0; i < p->n_sends; i++) free(p->sends[i].data);
    for (int i = 0; i < p->n_receives; i++) free(p->receives[i].data);
}

/* All exchanges run at the same time. Each rank starts and awaits them in an order of its own. */
static void random_exchanges(void)
{
    plan plans[N_EXCHANGES];
    const int rank = checked->comm->rank;
    for (int e = 0; e < N_EXCHANGES; e++) make_plan(&plans[e], e);
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < N_EXCHANGES; i++) {
            const int e = (i + rank + round) % N_EXCHANGES;
            start(&plans[e], e, round);
        }
        for (int i = 0; i < N_EXCHANGES; i++) {
            const int e = (i * 2 + 3 * rank) % N_EXCHANGES;
            wait_for(plans[e].exchange);
            check_received(&plans[e], e, round);
        }
    }
    for (int e = 0; e < N_EXCHANGES; e++) close_plan(&plans[e]);
}

/* ---- Single messages ---- */

/* The messages of two exchanges between the same ranks do not mix, whatever their order. */
static void exchanges_in_the_other_order(void)
{
    ls__comm *comm = checked->comm;
    const int to = (comm->rank + 1) % comm->n_ranks;
    const int from = (comm->rank + comm->n_ranks - 1) % comm->n_ranks;
    int sent[2] = { 10 * comm->rank, 10 * comm->rank + 1 }, received[2] = { -1, -1 };
    ls__exchange *e[2];
    for (int i = 0; i < 2; i++)
        CHECK(provider()->exchange_open(comm, &(ls__message){ to, &sent[i], sizeof(int) }, 1,
                                        &(ls__message){ from, &received[i], sizeof(int) }, 1,
                                        &e[i]) == LS_OK);
    for (int i = 0; i < 2; i++) CHECK(provider()->exchange_start(e[(comm->rank + i) % 2]) == LS_OK);
    for (int i = 0; i < 2; i++) wait_for(e[i]);
    for (int i = 0; i < 2; i++) {
        CHECK(received[i] == 10 * from + i);
        provider()->exchange_close(e[i]);
    }
}

/* The last rank starts late: its messages have not arrived, those of the others have. */
static void arrivals(void)
{
    ls__comm *comm = checked->comm;
    const int n = comm->n_ranks, late = n - 1;
    int own = comm->rank, all[MAX_RANKS] = { 0 };
    ls__message sends[MAX_RANKS], receives[MAX_RANKS];
    for (int r = 0; r < n; r++) {
        sends[r] = (ls__message){ r, &own, sizeof(own) };
        receives[r] = (ls__message){ r, &all[r], sizeof(own) };
    }
    ls__exchange *e, *go;
    CHECK(provider()->exchange_open(comm, sends, n, receives, n, &e) == LS_OK);
    /* The late rank waits for rank 0 first. */
    const bool is_late = comm->rank == late, is_first = comm->rank == 0;
    int word = 5;
    CHECK(provider()->exchange_open(comm, &(ls__message){ late, &word, sizeof(word) }, is_first,
                                    &(ls__message){ 0, &word, sizeof(word) }, is_late,
                                    &go) == LS_OK);
    if (is_late) {
        CHECK(provider()->exchange_start(go) == LS_OK);
        wait_for(go);
    }
    CHECK(provider()->exchange_start(e) == LS_OK);
    if (!is_late) {
        int64_t n_left = 0;
        CHECK(provider()->exchange_has_arrived(e, comm->rank));
        if (is_first) {
            /* All messages but the late rank's arrive. */
            for (int r = 0; r < late;) {
                CHECK(provider()->exchange_test(e, &n_left) == LS_OK && n_left > 0);
                if (provider()->exchange_has_arrived(e, r)) r++;
            }
            CHECK(!provider()->exchange_has_arrived(e, late));
            CHECK(provider()->exchange_start(go) == LS_OK);
            wait_for(go);
        }
    }
    wait_for(e);
    for (int r = 0; r < n; r++) CHECK(all[r] == r && provider()->exchange_has_arrived(e, r));
    provider()->exchange_close(e);
    provider()->exchange_close(go);
    provider()->exchange_close(NULL);
}

/* Addresses that lead to one block of memory again and again, but for the first and last block. */
static unsigned char *map_large(size_t bytes, size_t block)
{
    const int file = memfd_create("large", 0);
    CHECK(file >= 0 && ftruncate(file, (off_t)(3 * block)) == 0);
    unsigned char *memory =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (size_t at = 0; at < bytes; at += block) {
        const off_t from = at == 0 ? 0 : at + block < bytes ? (off_t)block : (off_t)(2 * block);
        CHECK(mmap(memory + at, block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                   from) != MAP_FAILED);
    }
    CHECK(close(file) == 0);
    return memory;
}

/* More bytes than MPI counts in an int. */
static void large_message(void)
{
    enum { BLOCK = 1 << 20 };
    const size_t bytes = ((size_t)2 << 30) + 2 * BLOCK;
    ls__comm *comm = checked->comm;
    if (comm->rank > 1) return;
    unsigned char *memory = map_large(bytes, BLOCK);
    const unsigned char sent[3] = { 11, 22, 33 };
    const size_t places[3] = { 5, bytes / 2 + 7, bytes - 1 };
    for (int i = 0; i < 3; i++) memory[places[i]] = comm->rank == 0 ? sent[i] : 0;
    const ls__message message = { 1 - comm->rank, memory, bytes };
    ls__exchange *e;
    CHECK(provider()->exchange_open(comm, &message, comm->rank == 0, &message, comm->rank == 1,
                                    &e) == LS_OK);
    CHECK(provider()->exchange_start(e) == LS_OK);
    wait_for(e);
    for (int i = 0; i < 3; i++) CHECK(memory[places[i]] == sent[i]);
    provider()->exchange_close(e);
    CHECK(munmap(memory, bytes) == 0);
}

/* Rank 0 waits for a message that never comes, because rank 1 does not start its exchange. */
static void close_while_running(void)
{
    ls__comm *comm = checked->comm;
    int word = 0;
    ls__exchange *e;
    if (comm->rank > 1) return;
    const ls__message message = { 1 - comm->rank, &word, sizeof(word) };
    CHECK(provider()->exchange_open(comm, &message, comm->rank == 1, &message, comm->rank == 0,
                                    &e) == LS_OK);
    if (comm->rank == 0) {
        int64_t n_left = 0;
        CHECK(provider()->exchange_start(e) == LS_OK);
        CHECK(provider()->exchange_test(e, &n_left) == LS_OK && n_left > 0);
    }
    provider()->exchange_close(e);
}

static void errors(void)
{
    ls__comm *comm = checked->comm;
    int words[2];
    ls__exchange *e = NULL;
    const ls__message one = { comm->rank, words, 4 }, two = { comm->rank, words, 8 };
    CHECK(provider()->exchange_open(comm, &one, 1, NULL, 0, &e) == LS_ERR_INVALID && !e);
    CHECK(strstr(ls_context_message(checked), "sends 1 messages to itself and receives 0"));
    ls_context_clear_error(checked);
    CHECK(provider()->exchange_open(comm, &one, 1, &two, 1, &e) == LS_ERR_INVALID && !e);
    CHECK(strstr(ls_context_message(checked), "sends 4 bytes to itself and receives 8"));
    ls_context_clear_error(checked);
}

/* Rank r sends r bytes fewer than its neighbour expects. */
static void lengths_that_differ(void)
{
    ls__comm *comm = checked->comm;
    char from[8] = { 0 }, to[8];
    ls__exchange *e;
    const ls__message send = { 1 - comm->rank, from, comm->rank == 0 ? 8 : 7 };
    const ls__message receive = { 1 - comm->rank, to, comm->rank == 0 ? 8 : 7 };
    if (comm->rank > 1) return;
    CHECK(provider()->exchange_open(comm, &send, 1, &receive, 1, &e) == LS_OK);
    CHECK(provider()->exchange_start(e) == LS_OK);
    int64_t n_left = 1;
    ls_status status = LS_OK;
    while (status == LS_OK && n_left > 0) status = provider()->exchange_test(e, &n_left);
    CHECK(status == (comm->rank == 0 ? LS_ERR_MISMATCH : LS_ERR_IO));
    CHECK(strstr(ls_context_message(checked), comm->rank == 0
                                                  ? "7 bytes from rank 1, expected 8"
                                                  : "rank 1: a receive: MPI_ERR_TRUNC"));
    provider()->exchange_close(e);
    ls_context_clear_error(checked);
}

int main(int argc, char **argv)
{
    const int n_ranks = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < 2; i++) { /* one context after the other */
        ls_context *ctx = open_ranks();
        CHECK(ls_context_rank_count(ctx) == n_ranks);
        CHECK(ls_context_rank(ctx) >= 0 && ls_context_rank(ctx) < n_ranks);
        for (int r = 0; r < n_ranks; r++) CHECK(ctx->comm->machines[r] == 0);
        CHECK(strcmp(ctx->config.communicator, "mpi") == 0);
        random_exchanges();
        exchanges_in_the_other_order();
        arrivals();
        if (i == 0 && n_ranks == 2) large_message();
        close_while_running();
        errors();
        lengths_that_differ();
        random_exchanges();
        close_ranks(&ctx);
    }
    printf("ok\n");
    return EXIT_SUCCESS;
}
