/* One client for every server that the bench measures.
 *
 * The Python side connects and shakes hands; this program takes over the open sockets. It only
 * writes ready-made bytes and counts what comes back, so that the cost of the client is the
 * same, and small, whatever answers. An end of a flow counts two kinds of thing:
 *   pushes   messages that arrived for it
 *   answers  to messages that it sent
 * either by size (everything on that socket is units of so many bytes) or by line (a line whose
 * head holds the mark). An end may have to acknowledge its pushes: a ready-made line around the number
 * of the last one, or (no ack_tail) two bytes, big-endian, after ack_head for each, as in MQTT.
 *
 * stdin, little endian u32: mode, flows, messages a flow, window; then two ends a flow. An end is
 *   fd, push_size, answer_size, ack_every, ack_base, stamp_at, stamp_base and the byte strings
 *   (length first) blob, push_mark, answer_mark, ack_head, ack_tail.
 * stamp_at: where in the blob eight digits are renewed for each message (0: nowhere).
 * ack_base: number of the last push before this run.
 * stdout: u64 nanoseconds, u64 messages, then u32 latencies in nanoseconds (not in mode PIPELINE).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ECHO_BACK, ANSWERED, PUSHED, PIPELINE };
enum { HEAD = 192, ACKS = 1 << 14, LIMIT_S = 90 };

struct text { uint32_t len; char *at; };

struct end {
    int fd;
    uint32_t push_size, answer_size, ack_every, ack_base, stamp_at, stamp;
    struct text blob, push_mark, answer_mark, ack_head, ack_tail;
    uint64_t bytes, pushes, answers, acked, sent;
    char *out;                   /* bytes on their way: an ack, a message, or both */
    size_t out_len, out_at;
    char head[HEAD + 1];         /* beginning of the line that is coming in */
    size_t head_len, line_len;
    int wants_out;
};

struct flow { struct end a, b; };

static char scratch[1 << 18];

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    _exit(1);
}

static uint32_t u32(void) {
    uint32_t v;
    if (fread(&v, 4, 1, stdin) != 1) die("short spec");
    return v;
}

static struct text text(void) {
    struct text t = {u32(), NULL};
    t.at = malloc(t.len + 1);
    if (t.len && fread(t.at, 1, t.len, stdin) != t.len) die("short spec");
    t.at[t.len] = 0;
    return t;
}

static void read_end(struct end *e) {
    memset(e, 0, sizeof *e);
    e->fd = u32(); e->push_size = u32(); e->answer_size = u32();
    e->ack_every = u32(); e->ack_base = u32(); e->stamp_at = u32(); e->stamp = u32();
    e->blob = text(); e->push_mark = text(); e->answer_mark = text();
    e->ack_head = text(); e->ack_tail = text();
    e->out = malloc(e->blob.len + e->ack_head.len + e->ack_tail.len + ACKS);
}

static int has(const struct end *e, struct text mark) {
    return mark.len && memmem(e->head, e->head_len, mark.at, mark.len) != NULL;
}

static void classify(struct end *e) {
    if (has(e, e->push_mark)) { e->pushes++; return; }
    if (memmem(e->head, e->head_len, "\"error\":", 8)) {
        fprintf(stderr, "refused after %llu: %.*s\n", (unsigned long long)e->answers, (int)e->head_len, e->head);
        _exit(3);
    }
    if (has(e, e->answer_mark)) e->answers++;
}

static void count(struct end *e, const char *p, size_t n) {
    e->bytes += n;
    if (e->push_size) { e->pushes = e->bytes / e->push_size; return; }
    if (e->answer_size) { e->answers = e->bytes / e->answer_size; return; }
    while (n) {
        const char *nl = memchr(p, '\n', n);
        size_t seg = nl ? (size_t)(nl - p) : n, room = HEAD - e->head_len;
        memcpy(e->head + e->head_len, p, seg < room ? seg : room);
        e->head_len += seg < room ? seg : room;
        e->line_len += seg;
        if (nl) { classify(e); e->head_len = e->line_len = 0; seg++; }
        p += seg; n -= seg;
    }
}

/* Nothing half read is left behind, so the next run starts on a boundary. */
static int at_boundary(const struct end *e) {
    uint32_t size = e->push_size ? e->push_size : e->answer_size;
    return size ? e->bytes % size == 0 : e->line_len == 0;
}

static int take(struct end *e) {
    ssize_t r = read(e->fd, scratch, sizeof scratch);
    if (r < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (r <= 0) die(r ? "read" : "the server closed a connection");
    count(e, scratch, r);
    return 1;
}

static int ack_due(const struct end *e) { return e->ack_every && e->pushes - e->acked >= e->ack_every; }

static void add_ack(struct end *e) {
    while (!e->ack_tail.len && e->acked < e->pushes && e->out_len + e->ack_head.len + 2 < ACKS) {
        uint32_t id = (e->ack_base + e->acked++) % 65535 + 1;
        memcpy(e->out + e->out_len, e->ack_head.at, e->ack_head.len);
        e->out_len += e->ack_head.len;
        e->out[e->out_len++] = id >> 8;
        e->out[e->out_len++] = id & 255;
    }
    if (!e->ack_tail.len) return;
    memcpy(e->out + e->out_len, e->ack_head.at, e->ack_head.len);
    e->out_len += e->ack_head.len;
    e->out_len += sprintf(e->out + e->out_len, "%llu", (unsigned long long)(e->ack_base + e->pushes));
    memcpy(e->out + e->out_len, e->ack_tail.at, e->ack_tail.len);
    e->out_len += e->ack_tail.len;
    e->acked = e->pushes;
}

static void add_message(struct end *e) {
    char *to = e->out + e->out_len;
    memcpy(to, e->blob.at, e->blob.len);
    if (e->stamp_at)
        for (uint32_t v = ++e->stamp, i = 8; i-- > 0; v /= 10) to[e->stamp_at + i] = '0' + v % 10;
    e->out_len += e->blob.len;
    e->sent++;
}

/* Writes what is on its way. Returns 0 when the socket is full. */
static int flush(struct end *e) {
    while (e->out_at < e->out_len) {
        ssize_t w = write(e->fd, e->out + e->out_at, e->out_len - e->out_at);
        if (w < 0 && errno == EAGAIN) return 0;
        if (w < 0 && errno != EINTR) die("write");
        if (w > 0) e->out_at += w;
    }
    e->out_at = e->out_len = 0;
    return 1;
}

static void wait_for(struct end *e, const uint64_t *what, uint64_t target) {
    while (*what < target) take(e);
}

static void settle(struct end *e) {
    while (!at_boundary(e)) take(e);
    while (e->ack_every && e->pushes > e->acked) { add_ack(e); flush(e); }
}

static void other_side(struct end *b, uint32_t n, int echo) {
    for (uint64_t i = 1; i <= n; i++) {
        wait_for(b, &b->pushes, i);
        if (ack_due(b)) add_ack(b);
        if (echo) add_message(b);
        flush(b);
    }
    settle(b);
    if (echo && b->answer_mark.len) wait_for(b, &b->answers, n);
    settle(b);
}

static uint64_t one_at_a_time(struct flow *f, uint32_t n, int mode, uint32_t *lat) {
    struct end *a = &f->a, *b = &f->b;
    pid_t kid = mode == PUSHED ? -1 : fork();
    if (kid == 0) {
        alarm(LIMIT_S);
        other_side(b, n, mode == ECHO_BACK);
        _exit(0);
    }
    uint64_t start = now();
    for (uint32_t i = 0; i < n; i++) {
        if (ack_due(a)) add_ack(a);
        add_message(a);
        uint64_t t = now();
        flush(a);
        if (mode == ECHO_BACK) wait_for(a, &a->pushes, i + 1);
        else if (mode == ANSWERED) wait_for(a, &a->answers, i + 1);
        else wait_for(b, &b->pushes, i + 1);
        lat[i] = (uint32_t)(now() - t);
        if (mode == PUSHED) {
            if (a->answer_mark.len) wait_for(a, &a->answers, i + 1);
            if (ack_due(b)) { add_ack(b); flush(b); }
        }
    }
    uint64_t took = now() - start;
    if (a->answer_mark.len) wait_for(a, &a->answers, n);
    settle(a);
    if (mode == PUSHED) settle(b);
    int status = 0;
    if (kid > 0 && (waitpid(kid, &status, 0) < 0 || status)) _exit(4);
    return took;
}

static int answers_count(const struct end *a) { return a->answer_size || a->answer_mark.len; }

static uint64_t finished(const struct flow *f) {
    return answers_count(&f->a) && f->a.answers < f->b.pushes ? f->a.answers : f->b.pushes;
}

/* One write for each message; an ack goes before the next message. */
static void pump(int ep, struct end *e, const struct flow *f, uint32_t n, uint32_t window, uint64_t tag) {
    for (;;) {
        int room = flush(e);
        if (room && ack_due(e)) { add_ack(e); continue; }
        if (room && e == &f->a && e->sent < n && e->sent - finished(f) < window) { add_message(e); continue; }
        if (e->wants_out == room) {
            struct epoll_event ev = {EPOLLIN | (room ? 0 : EPOLLOUT), {.u64 = tag}};
            if (epoll_ctl(ep, EPOLL_CTL_MOD, e->fd, &ev)) die("epoll_ctl");
            e->wants_out = !room;
        }
        return;
    }
}

static uint64_t pipeline(struct flow *f, uint32_t flows, uint32_t n, uint32_t window) {
    int ep = epoll_create1(0);
    for (uint64_t i = 0; i < 2 * (uint64_t)flows; i++) {
        int fd = i % 2 ? f[i / 2].b.fd : f[i / 2].a.fd;
        struct epoll_event ev = {EPOLLIN, {.u64 = i}};
        if (fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev)) die("epoll_ctl");
    }
    uint64_t total = (uint64_t)flows * n, done = 0, start = now();
    for (uint64_t i = 0; i < flows; i++) pump(ep, &f[i].a, &f[i], n, window, 2 * i);
    while (done < total) {
        struct epoll_event ev[256];
        int k = epoll_wait(ep, ev, 256, 10000);
        if (k == 0) {
            fprintf(stderr, "stalled at %llu of %llu\n", (unsigned long long)done, (unsigned long long)total);
            _exit(2);
        }
        for (int j = 0; j < k; j++) {
            uint64_t tag = ev[j].data.u64;
            struct flow *x = &f[tag / 2];
            struct end *e = tag % 2 ? &x->b : &x->a;
            uint64_t before = finished(x);
            if (ev[j].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take(e);
            done += finished(x) - before;
            pump(ep, e, x, n, window, tag);
            if (e == &x->b) pump(ep, &x->a, x, n, window, tag - 1);
        }
    }
    uint64_t took = now() - start;
    for (uint32_t i = 0; i < flows; i++) {
        fcntl(f[i].a.fd, F_SETFL, 0);
        fcntl(f[i].b.fd, F_SETFL, 0);
        settle(&f[i].a);
        settle(&f[i].b);
    }
    return took;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    alarm(LIMIT_S);
    uint32_t mode = u32(), flows = u32(), n = u32(), window = u32();
    struct flow *f = calloc(flows, sizeof *f);
    for (uint32_t i = 0; i < flows; i++) { read_end(&f[i].a); read_end(&f[i].b); }
    uint32_t *lat = mode == PIPELINE ? NULL : calloc(n, 4);
    uint64_t total = (uint64_t)flows * n;
    uint64_t took = mode == PIPELINE ? pipeline(f, flows, n, window) : one_at_a_time(f, n, mode, lat);
    fwrite(&took, 8, 1, stdout);
    fwrite(&total, 8, 1, stdout);
    if (lat) fwrite(lat, 4, n, stdout);
    return 0;
}
