import fc from 'fast-check'

const SEED = 20_261_115

/**
 * Every run uses the same cases, so that a failed build is caused by the change. `COLLET_SEED=random`, or a number that a failure
 * printed, selects other cases.
 */
const asked = process.env.COLLET_SEED
if (asked !== 'random') fc.configureGlobal({ seed: asked === undefined ? SEED : Number(asked) })
