//! Python's `random.seed(42); random.shuffle(x)`, so that `--shuffle` gives the same order as in
//! mini-swe-agent and SWE-agent.

const N: usize = 624;
const M: usize = 397;

/// The Mersenne Twister MT19937.
struct Twister {
    state: [u32; N],
    at: usize,
}

impl Twister {
    /// Seeded as Python does it with the integer 42: by an array of this one number.
    fn python_42() -> Self {
        let key = [42u32];
        let mut state = [0u32; N];
        state[0] = 19_650_218;
        for i in 1..N {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32
                .wrapping_mul(before ^ (before >> 30))
                .wrapping_add(u32::try_from(i).unwrap_or_default());
        }
        let (mut i, mut j) = (1, 0);
        for _ in 0..N {
            let before = state[i - 1];
            let mixed = state[i] ^ (before ^ (before >> 30)).wrapping_mul(1_664_525);
            state[i] = mixed
                .wrapping_add(key[j])
                .wrapping_add(u32::try_from(j).unwrap_or_default());
            i += 1;
            j = (j + 1) % key.len();
            if i >= N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        for _ in 0..N - 1 {
            let before = state[i - 1];
            let mixed = state[i] ^ (before ^ (before >> 30)).wrapping_mul(1_566_083_941);
            state[i] = mixed.wrapping_sub(u32::try_from(i).unwrap_or_default());
            i += 1;
            if i >= N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        Self { state, at: N }
    }

    fn next(&mut self) -> u32 {
        if self.at >= N {
            for i in 0..N {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
            }
            self.at = 0;
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number below `bound`, which must be at least 1 and fit into 32 bits.
    fn below(&mut self, bound: usize) -> usize {
        let bits = usize::BITS - bound.leading_zeros();
        loop {
            let number = (self.next() >> (32 - bits)) as usize;
            if number < bound {
                return number;
            }
        }
    }
}

/// Shuffles in place.
pub(crate) fn shuffle<T>(items: &mut [T]) {
    let mut twister = Twister::python_42();
    for i in (1..items.len()).rev() {
        let j = twister.below(i + 1);
        items.swap(i, j);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_python() {
        let mut twister = Twister::python_42();
        let numbers: Vec<u32> = (0..6).map(|_| twister.next()).collect();
        assert_eq!(
            numbers,
            [
                2_746_317_213,
                478_163_327,
                107_420_369,
                3_184_935_163,
                1_181_241_943,
                1_051_802_512
            ]
        );
    }

    #[test]
    fn the_orders_of_python() {
        let order = |n: usize| {
            let mut items: Vec<usize> = (0..n).collect();
            shuffle(&mut items);
            items
        };
        assert_eq!(order(0), Vec::<usize>::new());
        assert_eq!(order(1), [0]);
        assert_eq!(order(2), [1, 0]);
        assert_eq!(order(3), [1, 0, 2]);
        assert_eq!(order(8), [3, 4, 6, 7, 2, 5, 0, 1]);
        assert_eq!(order(10), [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]);
        assert_eq!(order(12), [7, 5, 2, 8, 9, 6, 11, 3, 4, 0, 1, 10]);
        assert_eq!(order(23)[..5], [16, 15, 2, 14, 5]);
        assert_eq!(order(300)[..5], [106, 239, 37, 89, 32]);
        assert_eq!(order(500)[..5], [164, 383, 45, 156, 53]);
    }
}
