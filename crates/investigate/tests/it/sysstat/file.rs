//! A file of format 0x2175 in parts, so that a test can change one and put them together again.

/// Magic and header as they are, activities, records.
#[derive(Clone)]
pub(super) struct File {
    pub(super) head: Vec<u8>,
    pub(super) activities: Vec<Vec<u8>>,
    /// What comes between the activities and the first record.
    pub(super) extra: Vec<u8>,
    pub(super) records: Vec<Record>,
}

/// A record: its header, and a part an activity, or one part with what else follows.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) header: Vec<u8>,
    pub(super) ids: Vec<u32>,
    pub(super) parts: Vec<Vec<u8>>,
}

/// Of the magic structure.
const MAGIC: usize = 76;
/// Of a record's header, since 12.1.
const RECORD: usize = 24;

fn number(bytes: &[u8], offset: usize) -> usize {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap()) as usize
}

impl File {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let count = number(bytes, MAGIC + 16 + 4);
        let mut at = MAGIC + number(bytes, 8);
        let head = bytes[..at].to_vec();
        let activities: Vec<Vec<u8>> = (0..count)
            .map(|index| bytes[at + 36 * index..at + 36 * (index + 1)].to_vec())
            .collect();
        at += 36 * count;
        let mut records = Vec::new();
        while at < bytes.len() {
            let header = bytes[at..at + RECORD].to_vec();
            at += RECORD;
            let mut record = Record { header, ids: Vec::new(), parts: Vec::new() };
            match record.header[20] {
                2 => record.parts.push(bytes[at..at + 4].to_vec()),
                4 => record.parts.push(bytes[at..at + 64].to_vec()),
                _ => {
                    let mut begin = at;
                    for activity in &activities {
                        let counted = number(activity, 16) != 0;
                        let items =
                            if counted { number(bytes, begin) } else { number(activity, 8) };
                        let length = usize::from(counted) * 4
                            + items * number(activity, 12) * number(activity, 20);
                        record.ids.push(u32::try_from(number(activity, 0)).unwrap());
                        record.parts.push(bytes[begin..begin + length].to_vec());
                        begin += length;
                    }
                }
            }
            at += record.parts.iter().map(Vec::len).sum::<usize>();
            records.push(record);
        }
        let file = Self { head, activities, extra: Vec::new(), records };
        assert_eq!(file.bytes(), bytes);
        file
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend(self.activities.concat());
        bytes.extend(&self.extra);
        for record in &self.records {
            bytes.extend(record.bytes());
        }
        bytes
    }

    /// The record of statistics of this number, from 0.
    pub(super) fn statistics(&mut self, index: usize) -> &mut Record {
        let mut statistics = self.records.iter_mut().filter(|record| record.header[20] == 1);
        statistics.nth(index).unwrap()
    }

    /// An activity that nobody knows, in the midst of the others.
    pub(super) fn add_activity(&mut self, id: u32, items: u32, subitems: u32, size: u32) {
        let count = u32::try_from(self.activities.len() + 1).unwrap();
        self.head[MAGIC + 20..MAGIC + 24].copy_from_slice(&count.to_le_bytes());
        let fields = [id, 0x8a, items, subitems, 1, size, size / 8, 0, 0];
        self.activities.insert(3, fields.iter().flat_map(|field| field.to_le_bytes()).collect());
        for record in self.records.iter_mut().filter(|record| !record.ids.is_empty()) {
            let mut part = items.to_le_bytes().to_vec();
            part.resize(4 + (items * subitems * size) as usize, 0x5a);
            record.ids.insert(3, id);
            record.parts.insert(3, part);
        }
    }

    /// Two structures of 8 bytes that nobody knows, and three of 16, behind the activities and in
    /// every record; and records with nothing else.
    pub(super) fn add_extra(&mut self) {
        let description = |count: u32, size: u32, next: u32| {
            let fields = [count, size, next, size / 8, 0, 0];
            let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
            bytes.resize(24 + (count * size) as usize, 0xa5);
            bytes
        };
        let extra = [description(2, 8, 1), description(3, 16, 0)].concat();
        // `extra_next` is the twelfth of the header's narrow fields, and the only one of a
        // record's.
        self.head[MAGIC + 16 + 44..MAGIC + 16 + 48].copy_from_slice(&1_u32.to_le_bytes());
        self.extra.clone_from(&extra);
        for record in &mut self.records {
            record.header[16..20].copy_from_slice(&1_u32.to_le_bytes());
            let place = if record.ids.is_empty() { 1 } else { 0 };
            if !record.ids.is_empty() {
                record.ids.insert(0, 0);
            }
            record.parts.insert(place, extra.clone());
        }
        let mut only = self.records[2].clone();
        only.header[20] = 5;
        only.ids.clear();
        only.parts = vec![extra];
        self.records.insert(3, only);
    }
}

impl Record {
    pub(super) fn bytes(&self) -> Vec<u8> {
        [self.header.clone(), self.parts.concat()].concat()
    }

    /// What it says of an activity.
    pub(super) fn part(&mut self, id: u32) -> &mut Vec<u8> {
        let index = self.ids.iter().position(|each| *each == id).unwrap();
        &mut self.parts[index]
    }

    /// Changes a number.
    pub(super) fn change(&mut self, id: u32, offset: usize, to: impl Fn(u64) -> u64) {
        let place = &mut self.part(id)[offset..offset + 8];
        let number = to(u64::from_le_bytes((&*place).try_into().unwrap()));
        place.copy_from_slice(&number.to_le_bytes());
    }
}
