//! A list in a place of fixed size, for which nothing is allocated.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
pub(crate) struct BoundedList<T, const MOST: usize> {
    items: [T; MOST],
    count: usize,
}

impl<T, const MOST: usize> BoundedList<T, MOST> {
    /// False where there is no room.
    pub(crate) fn push(&mut self, item: T) -> bool {
        let Some(place) = self.items.get_mut(self.count) else { return false };
        *place = item;
        self.count += 1;
        true
    }

    pub(crate) const fn clear(&mut self) {
        self.count = 0;
    }
}

impl<T: Copy + Default, const MOST: usize> From<&[T]> for BoundedList<T, MOST> {
    fn from(items: &[T]) -> Self {
        let mut list = Self { items: [T::default(); MOST], count: items.len().min(MOST) };
        for (place, item) in list.items.iter_mut().zip(items) {
            *place = *item;
        }
        list
    }
}

impl<T: Copy + Default, const MOST: usize> Default for BoundedList<T, MOST> {
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl<T, const MOST: usize> Deref for BoundedList<T, MOST> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.items.get(..self.count).unwrap_or_default()
    }
}

impl<T, const MOST: usize> DerefMut for BoundedList<T, MOST> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.items.get_mut(..self.count).unwrap_or_default()
    }
}

impl<T: PartialEq, const MOST: usize> PartialEq for BoundedList<T, MOST> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const MOST: usize> Eq for BoundedList<T, MOST> {}

impl<T: std::fmt::Debug, const MOST: usize> std::fmt::Debug for BoundedList<T, MOST> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
