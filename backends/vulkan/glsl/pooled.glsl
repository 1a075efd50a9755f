// What a row of pooled attention sees: slots of its window, then blocks. 64 of both are a page.
struct PooledSeen {
  uint begin;   // the first slot
  uint slots;   // how many
  uint blocks;  // how many
};
PooledSeen pooled_seen(uint slot, uint window) {
  PooledSeen seen;
  seen.begin = slot + 1 > window ? slot + 1 - window : 0;
  seen.slots = slot + 1 - seen.begin;
  seen.blocks = (slot + 1) / kTokens;
  if (kChosen != 0) seen.blocks = min(seen.blocks, kChosen);
  return seen;
}
uint pages_of(PooledSeen seen) { return (seen.slots + seen.blocks + kPageTokens - 1) / kPageTokens; }
