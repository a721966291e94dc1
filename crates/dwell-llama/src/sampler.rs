//! Choosing tokens.

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

/// Below this, drawing is the same as taking the likeliest, and dividing by it could overflow.
const GREEDY_BELOW: f32 = f32::EPSILON;

/// Chooses tokens for one sequence; freed when dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    chain: NonNull<sys::llama_sampler>,
    candidates: Vec<sys::llama_token_data>,
}

impl Sampler {
    /// A sampler that takes the likeliest token at temperature 0 and else draws with this seed.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    pub(crate) fn new(temperature: f32, seed: u32) -> Sampler {
        // SAFETY: the chain takes over the samplers that are added to it.
        let chain = unsafe {
            let chain = sys::llama_sampler_chain_init(sys::llama_sampler_chain_default_params());
            if temperature < GREEDY_BELOW {
                sys::llama_sampler_chain_add(chain, sys::llama_sampler_init_greedy());
            } else {
                sys::llama_sampler_chain_add(chain, sys::llama_sampler_init_temp(temperature));
                sys::llama_sampler_chain_add(chain, sys::llama_sampler_init_dist(fixed_seed(seed)));
            }
            chain
        };
        Sampler { chain: NonNull::new(chain).expect("new in C++ throws rather than give null"), candidates: Vec::new() }
    }

    /// Chooses a token, or says what is wrong with the logits.
    pub(crate) fn sample(&mut self, logits: &[f32]) -> Result<i32, &'static str> {
        check_logits(logits)?;
        self.candidates.clear();
        self.candidates.extend(logits.iter().zip(0..).map(|(&logit, id)| sys::llama_token_data { id, logit, p: 0.0 }));
        let mut array = sys::llama_token_data_array {
            data: self.candidates.as_mut_ptr(),
            size: self.candidates.len(),
            selected: -1,
            sorted: false,
        };
        // SAFETY: the chain is alive and the array describes the candidates, which outlive the call.
        unsafe { sys::llama_sampler_apply(self.chain.as_ptr(), &raw mut array) };
        let selected = usize::try_from(array.selected).ok().and_then(|index| self.candidates.get(index));
        let id = selected.ok_or("nothing to select")?.id;
        // SAFETY: the chain is alive.
        unsafe { sys::llama_sampler_accept(self.chain.as_ptr(), id) };
        Ok(id)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: made by llama_sampler_chain_init and freed only here, with the samplers in it.
        unsafe { sys::llama_sampler_free(self.chain.as_ptr()) };
    }
}

/// llama.cpp takes the largest seed as a wish for a random one, which would not be reproducible.
fn fixed_seed(seed: u32) -> u32 {
    seed.min(u32::MAX - 1)
}

/// Some token must be possible and none may be infinitely likely, or the choice would mean nothing.
fn check_logits(logits: &[f32]) -> Result<(), &'static str> {
    let mut is_any_possible = false;
    for &logit in logits {
        if logit.is_nan() {
            return Err("NaN");
        }
        if logit == f32::INFINITY {
            return Err("infinity");
        }
        is_any_possible |= logit.is_finite();
    }
    is_any_possible.then_some(()).ok_or("only minus infinity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_zero_takes_the_likeliest() {
        let mut sampler = Sampler::new(0.0, 0);
        assert_eq!(sampler.sample(&[0.0, 3.0, 1.0]), Ok(1));
        assert_eq!(Sampler::new(1e-40, 0).sample(&[0.0, 3.0, 1.0]), Ok(1));
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let logits: Vec<f32> = (0..100).map(|number| (number % 7) as f32).collect();
        for seed in [0, 7, u32::MAX] {
            let draw = || {
                let mut sampler = Sampler::new(1.0, seed);
                (0..20).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(draw(), draw());
        }
    }

    #[test]
    fn refuses_what_is_no_distribution() {
        let mut sampler = Sampler::new(1.0, 0);
        assert_eq!(sampler.sample(&[0.0, f32::NAN]), Err("NaN"));
        assert_eq!(sampler.sample(&[0.0, f32::INFINITY]), Err("infinity"));
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY; 2]), Err("only minus infinity"));
        assert_eq!(sampler.sample(&[]), Err("only minus infinity"));
    }
}
