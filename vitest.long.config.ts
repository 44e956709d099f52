import { defineConfig } from 'vitest/config'
import config from './vitest.config.ts'

const HOURS_MS = 4 * 3_600_000

/**
 * `npm run test:long`: what takes too long for every change. A suite that has a size takes it from a variable, and is small in
 * `npm test`: add its file to `include` and its variable to `env`. One that is always long is a file `*.long.test.ts`.
 */
export default defineConfig({
  ...config,
  test: {
    ...config.test,
    include: ['test/fuzz/*.test.ts', 'test/conformance/differential.test.ts', '**/*.long.test.ts'],
    exclude: ['**/node_modules/**'],
    env: {
      COLLET_FUZZ_CASES: process.env.COLLET_FUZZ_CASES ?? '25000',
      COLLET_DIFFERENTIAL_CASES: process.env.COLLET_DIFFERENTIAL_CASES ?? '20000',
    },
    testTimeout: HOURS_MS,
  },
})
