//! How many rows there are (clause 1.2): all follow from the number of warehouses.

/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// The least and the most lines of an order.
pub const LINES: (u32, u32) = (5, 15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub warehouses: u32,
    pub items: u32,
    /// Of a district; as many orders are there after a load, one of each customer.
    pub customers: u32,
}

impl Scale {
    pub const fn standard(warehouses: u32) -> Scale {
        Scale { warehouses, items: 100_000, customers: 3000 }
    }

    /// One `cut`th of the standard's rows for each warehouse: for tests, and no TPC-C.
    pub fn cut(warehouses: u32, cut: u32) -> Scale {
        let whole = Scale::standard(warehouses);
        Scale { items: (whole.items / cut).max(100), customers: (whole.customers / cut).max(30), ..whole }
    }

    pub fn is_standard(&self) -> bool {
        *self == Scale::standard(self.warehouses)
    }

    /// The first order of a district that is not delivered after a load: the last three in ten are new.
    pub fn first_new_order(&self) -> u32 {
        self.customers / 10 * 7 + 1
    }

    /// New orders of a district after a load.
    pub fn new_orders(&self) -> u32 {
        self.customers + 1 - self.first_new_order()
    }

    /// Numbers of last names that occur.
    pub fn names(&self) -> u32 {
        self.customers.min(1000)
    }

    /// Rows of all tables after a load, with the ten lines that an order has on average.
    pub fn rows(&self) -> u64 {
        let districts = u64::from(self.warehouses) * u64::from(DISTRICTS);
        let customers = districts * u64::from(self.customers);
        u64::from(self.items) * (1 + u64::from(self.warehouses))
            + u64::from(self.warehouses)
            + districts
            + customers * (3 + 10)
            + districts * u64::from(self.new_orders())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_s_numbers() {
        let one = Scale::standard(1);
        assert_eq!((one.first_new_order(), one.new_orders(), one.names()), (2101, 900, 1000));
        assert_eq!(one.rows(), 100_000 + 1 + 10 + 30_000 * 3 + 300_000 + 9_000 + 100_000);
        assert!(one.is_standard() && !Scale::cut(1, 10).is_standard());
        assert_eq!(Scale::cut(2, 1), Scale::standard(2));
    }
}
