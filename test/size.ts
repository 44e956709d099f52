/** The size of a suite: small in `npm test`, whole in `npm run test:long` (vitest.long.config.ts lists its file). */
export function sized(small: number, whole: number): number {
  return process.env.COLLET_LONG === undefined ? small : whole
}
