import fc from 'fast-check'

const SEED = 20_261_115

/**
 * Every run uses equal cases, so that a red build is about the change. `COLLET_SEED=random`, or a number that a
 * failure printed, looks elsewhere.
 */
const asked = process.env.COLLET_SEED
if (asked !== 'random') fc.configureGlobal({ seed: asked === undefined ? SEED : Number(asked) })
