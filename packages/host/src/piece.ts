/** Of a snapshot's text that is longer, the guest answers pieces of at least so many UTF-16 units. */
export const PIECE_UNITS: number = 1 << 18;
