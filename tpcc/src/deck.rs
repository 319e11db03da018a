//! Which transaction comes next (clause 5.2.4.2): a deck of 100 cards that holds exactly the standard's minimum shares, dealt
//! in random order and shuffled again when it is out.

use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    pub fn name(self) -> &'static str {
        ["new_order", "payment", "order_status", "delivery", "stock_level"][self as usize]
    }

    /// Cards of the deck.
    pub fn cards(self) -> u8 {
        [45, 43, 4, 4, 4][self as usize]
    }
}

#[derive(Clone, Debug)]
pub struct Deck {
    cards: [Kind; 100],
    dealt: usize,
}

impl Deck {
    pub fn new(random: &mut Random) -> Deck {
        let mut cards = [Kind::NewOrder; 100];
        let all = Kind::ALL.into_iter().flat_map(|kind| std::iter::repeat_n(kind, kind.cards().into()));
        cards.iter_mut().zip(all).for_each(|(card, kind)| *card = kind);
        random.shuffle(&mut cards);
        Deck { cards, dealt: 0 }
    }

    pub fn deal(&mut self, random: &mut Random) -> Kind {
        if self.dealt == self.cards.len() {
            random.shuffle(&mut self.cards);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_cards_hold_the_mix() {
        let mut random = Random::new(3, 1);
        let mut deck = Deck::new(&mut random);
        let mut orders = Vec::new();
        for _ in 0..5 {
            let dealt: Vec<Kind> = (0..100).map(|_| deck.deal(&mut random)).collect();
            for kind in Kind::ALL {
                assert_eq!(dealt.iter().filter(|k| **k == kind).count(), kind.cards() as usize);
            }
            orders.push(dealt);
        }
        assert_ne!(orders[0], orders[1]);
        assert_eq!(Kind::ALL.iter().map(|k| u32::from(k.cards())).sum::<u32>(), 100);
    }
}
