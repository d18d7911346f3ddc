/* What the compiled probes are compared with: a STREAM triad and a chain of multiply-adds, in C with a compiler's own
   vectors. The triad is the loop of J. D. McCalpin's STREAM on float32. */

/* What the compiler must not see through: each round is done, and none is joined with the next. */
#define ROUND_ENDS __asm__ volatile("" ::: "memory")

void triad(float *restrict target, const float *restrict left, const float *restrict right, float factor, long count,
           long rounds) {
    for (long round = 0; round < rounds; round++) {
        /* gcc does not unroll by itself at -O3, and the turns of the loop would then bound it in the first cache. */
#pragma GCC unroll 8
        for (long i = 0; i < count; i++) target[i] = left[i] + factor * right[i];
        ROUND_ENDS;
    }
}

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
/* Enough independent sums to hide the latency of two units, few enough for sixteen registers. */
#define CHAINS 12
#define STEPS 64

typedef float vector __attribute__((vector_size(4 * LANES)));

long lanes(void) { return LANES; }

/* 2 * LANES * CHAINS * STEPS FLOPs a round. Nothing is loaded: all of it stays in registers. */
long flops_of_a_round(void) { return 2L * LANES * CHAINS * STEPS; }

float multiply_add(float factor, float addend, long rounds) {
    vector sums[CHAINS], times, plus;
    for (int lane = 0; lane < LANES; lane++) times[lane] = factor, plus[lane] = addend;
    for (int chain = 0; chain < CHAINS; chain++) sums[chain] = times + (float)chain;
    for (long round = 0; round < rounds; round++)
#pragma GCC unroll 64
        for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 12
            for (int chain = 0; chain < CHAINS; chain++) sums[chain] = sums[chain] * times + plus;
    float total = 0;
    for (int chain = 0; chain < CHAINS; chain++)
        for (int lane = 0; lane < LANES; lane++) total += sums[chain][lane];
    return total;
}
