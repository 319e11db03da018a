//! Why: whether the heap is to blame for a loss, on three legs, or what else is. Pure functions of an analysis and of profiles.
//!
//! 1. There is a loss: a cliff or a long fall along the clients, or a level under another heap's at the same clients.
//! 2. It goes, or shrinks to less than half, when only the heap changes.
//! 3. The heap's own frames cost more with it: per transaction, where the profiles know transactions, else as a share.
//!
//! All three, and the heap is to blame; else it is not, and the largest cause that grew is named.

mod choose;
mod cost;
mod loss;
mod sheet;
mod spot;
mod verdict;

pub use choose::{Chosen, choose};
pub use cost::{Toll, tolls};
pub use loss::{Against, Asked, Loss, losses};
pub use sheet::{Sheet, read as read_sheet};
pub use spot::{Cost, Spot, Taken, causes, spots};
pub use verdict::{Answer, Blame, Leg, answers};

/// All that is known of why: an answer for each test, and the profiles behind them.
#[derive(Clone, Debug, Default)]
pub struct Why {
    pub answers: Vec<Answer>,
    pub spots: Vec<Spot>,
    pub tolls: Vec<Toll>,
}
