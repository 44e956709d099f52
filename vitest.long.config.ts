import { defineConfig } from 'vitest/config'
import config from './vitest.config.ts'

const { projects: _small, ...shared } = config.test ?? {}
const HOURS_MS = 4 * 3_600_000

/**
 * `npm run test:long`: what takes too long for every change. A suite that has a size takes it from `test/size.ts` or from a
 * variable of its own, and is small in `npm test`: add its file to `include`. One that is always long is a file `*.long.test.ts`.
 */
export default defineConfig({
  ...config,
  test: {
    ...shared,
    include: [
      'test/fuzz/*.test.ts',
      'test/conformance/differential.test.ts',
      'test/crash/crash.test.ts',
      'test/faults/faults.test.ts',
      'test/sources/openapi/corpus.test.ts',
      'test/store/{approval-model,budget-processes,postgres-url,store-copy}.test.ts',
      'test/server/{journal-verify,tools-http}.test.ts',
      'src/kernel/call/call-tool.model.test.ts',
      'test/console/start.test.ts',
      '**/*.long.test.ts',
    ],
    exclude: ['**/node_modules/**'],
    globalSetup: ['test/store/databases-setup.ts', 'test/console/built.ts'],
    env: { COLLET_LONG: '1', COLLET_FUZZ_CASES: process.env.COLLET_FUZZ_CASES ?? '25000' },
    testTimeout: HOURS_MS,
  },
})
