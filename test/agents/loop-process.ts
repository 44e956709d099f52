import { connect } from 'collet/client'
import { LOOPS, SavedState } from './loops.ts'

/** One agent loop in a separate process, which a test kills: LIBRARY FILE COLLET_URL PROVIDER_URL CONVERSATION TOOLSET. */
const [library, file = '', collet = '', provider = '', conversation = 'c1', toolset] = process.argv.slice(2)
const found = Object.entries(LOOPS).find(([name]) => name === library)
if (found === undefined) throw new Error(`There is no loop ${library}.`)
const [, loop] = found
await loop({
  source: connect(collet, toolset === undefined ? {} : { toolset }),
  conversation,
  provider,
  saved: new SavedState(file),
})
process.exit(0)
