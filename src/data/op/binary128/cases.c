/* Writes cases.tsv: what gcc's __float128 makes of pairs of operands. gcc -O0 cases.c && ./a.out > cases.tsv */
#include <stdint.h>
#include <stdio.h>

typedef union {
    __float128 value;
    unsigned __int128 bits;
    struct {
        uint64_t low, high;
    };
} number;

static uint64_t state = 20261122;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void show(number n)
{
    /* One NaN is as good as another. */
    if (n.value != n.value)
        printf("NaN\t");
    else
        printf("%016llx%016llx\t", (unsigned long long)n.high, (unsigned long long)n.low);
}

static void pair(number a, number b)
{
    number result;
    show(a);
    show(b);
    result.value = a.value + b.value;
    show(result);
    result.value = a.value - b.value;
    show(result);
    result.value = a.value * b.value;
    show(result);
    printf("%d\t%d\n", a.value > b.value, a.value == b.value);
}

int main(void)
{
    const struct {
        uint64_t high, low;
    } special[] = {
        {0, 0}, {0x8000000000000000, 0}, {0, 1}, {0x0000ffffffffffff, 0xffffffffffffffff}, {0x0001000000000000, 0},
        {0x3fff000000000000, 0}, {0xbfff000000000000, 0}, {0x3fff000000000000, 1}, {0x3ffeffffffffffff, 0xffffffffffffffff},
        {0x3f8e000000000000, 0}, {0x3f8d000000000000, 0}, {0x3f8d000000000000, 1}, {0x7ffeffffffffffff, 0xffffffffffffffff},
        {0xfffeffffffffffff, 0xffffffffffffffff}, {0x7fff000000000000, 0}, {0xffff000000000000, 0},
        {0x7fff800000000000, 0},
    };
    const int many = sizeof special / sizeof *special;
    printf("a\tb\ta+b\ta-b\ta*b\ta>b\ta==b\n");
    for (int i = 0; i < many; i++)
        for (int k = 0; k < many; k++) {
            number a = {.high = special[i].high, .low = special[i].low};
            number b = {.high = special[k].high, .low = special[k].low};
            pair(a, b);
        }
    /* Of like size, so that digits meet; and near the ends, so that products are subnormal or too large. */
    for (int i = 0; i < 200; i++) {
        number a = {.low = next()}, b = {.low = next()};
        uint64_t exponent = i % 4 == 3 ? 0x1f80 + next() % 0x100 : 0x3fff - 60 + next() % 120;
        a.high = (next() & 0x8000ffffffffffff) | exponent << 48;
        exponent = i % 4 == 3 ? 0x1f80 + next() % 0x100 : exponent - 60 + next() % 120;
        b.high = (next() & 0x8000ffffffffffff) | exponent << 48;
        if (i % 5 == 4) {
            a.low &= 0xff00000000000000;
            b.low &= 0xff00000000000000;
        }
        pair(a, b);
    }
    return 0;
}
