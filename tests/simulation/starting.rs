//! What starting costs a rank, by the number of ranks: `MPI_Init` costs the same for all, and the first barrier the logarithm.
//!
//! `WEFT_TEST_RANKS=10000` tries so many, which takes minutes without optimization; with it, `docs/performance.md` has the figures.

use weft::objects::collective::barrier;
use weft::sim::{Options, Rank, Simulation};

/// Of one rank.
#[derive(Debug, Default, Clone, Copy)]
struct Costs {
    /// Business cards of others that it knows: at most so many requests to the launcher.
    cards: u64,
    messages: u64,
}

impl Costs {
    fn of(rank: &Rank) -> Costs {
        let others = u64::from(rank.instance().job().size) - 1;
        Costs {
            cards: others - rank.instance().unknown_cards().len() as u64,
            messages: rank.network().sent(rank.me()),
        }
    }
}

/// After Init, and after a barrier.
async fn program(rank: Rank) -> [Costs; 2] {
    let after_init = Costs::of(&rank);
    barrier(&rank.world().collective()).await.expect("nobody dies");
    [after_init, Costs::of(&rank)]
}

/// A plain network; what is random in others changes how long things take, and how often they are tried.
fn options() -> Options {
    let mut options = Options::random(1);
    options.conditions.delay_ns_max = 1;
    options.conditions.completion_ns_max = 1;
    options.conditions.again_permille = 0;
    options.lookup_ns_max = 1;
    options.processors = None;
    options.steps_max = u64::MAX;
    options
}

#[test]
fn no_step_of_init_is_all_to_all() {
    let asked = std::env::var("WEFT_TEST_RANKS")
        .ok()
        .and_then(|text| text.parse().ok());
    for size in asked.map_or(vec![10, 100, 1000], |size: u32| vec![size]) {
        let results = Simulation::new(1, size, options()).run(program);
        // A barrier of more than a few ranks has three messages in each round, after which four times as many know of each other.
        let most_messages = 3 * u64::from(size.ilog2() / 2 + 1);
        let mut most = [Costs::default(); 2];
        for costs in results.into_iter().flatten() {
            for (most, costs) in most.iter_mut().zip(costs) {
                most.cards = most.cards.max(costs.cards);
                most.messages = most.messages.max(costs.messages);
            }
        }
        let [init, barrier] = most;
        println!("{size} ranks: {init:?} after Init, {barrier:?} after a barrier");
        assert_eq!((init.cards, init.messages), (0, 0), "Init of {size} ranks");
        assert!(
            barrier.cards <= most_messages,
            "cards of {size} ranks: {barrier:?}"
        );
        assert!(
            barrier.messages <= most_messages,
            "messages of {size} ranks: {barrier:?}"
        );
    }
}
