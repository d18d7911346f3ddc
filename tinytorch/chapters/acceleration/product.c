// The product of two matrices, in tiles.
// Compile and run it: cc -O3 -march=native product.c -o product -lm && ./product
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
enum { LANES = 16, R = 8, V = 3 };  // 32 registers of 16 floats hold 24 sums
#else
enum { LANES = 8, R = 4, V = 3 };  // 16 registers of 8 floats hold 12 sums
#endif
enum { N = 1920, W = V * LANES, D = 480 };  // size of the matrices, width and depth of a panel

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
static float A[N][N], B[N][N], C[N][N], panels[N / W][D][W];

// Multiply R rows of A by a panel, and add the result to a tile of C.
static void add_tile(float (*a)[N], float (*panel)[W], float (*c)[N], int top, int left) {
    vec sum[R][V] = {0};  // stays in registers
    for (int k = 0; k < D; k++)
        for (int v = 0; v < V; v++) {
            vec b = *(vec *)&panel[k][v * LANES];
            for (int r = 0; r < R; r++) sum[r][v] += a[r][top + k] * b;
        }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) *(vec *)&c[r][left + v * LANES] += sum[r][v];
}

static void multiply(void) {
    memset(C, 0, sizeof C);
    for (int top = 0; top < N; top += D) {  // D rows of B at a time
        for (int k = 0; k < D; k++)         // pack them, in the order in which they lie in memory
            for (int p = 0; p < N / W; p++) memcpy(panels[p][k], &B[top + k][p * W], sizeof panels[p][k]);
        for (int p = 0; p < N / W; p++)  // use each panel for all rows of A
            for (int i = 0; i < N; i += R) add_tile(&A[i], panels[p], &C[i], top, p * W);
    }
}

int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) A[i][j] = (i * 7 + j * 3) % 11 - 5, B[i][j] = (i * 5 + j * 2) % 13 - 6;
    double best = INFINITY, error = 0;
    for (int run = 0; run < 3; run++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        multiply();
        clock_gettime(CLOCK_MONOTONIC, &end);
        best = fmin(best, end.tv_sec - start.tv_sec + 1e-9 * (end.tv_nsec - start.tv_nsec));
    }
    for (int i = 0; i < N; i++) {  // check the diagonal
        double sum = 0;
        for (int k = 0; k < N; k++) sum += (double)A[i][k] * B[k][i];
        error = fmax(error, fabs(sum - C[i][i]));
    }
    printf("%d wide: %.1f GFLOP/s, largest error on the diagonal %g\n", N, 2e-9 * N * N * N / best, error);
}
