import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'

const ROOT = resolve(import.meta.dirname, '..')
const LIMIT_MS = 120_000

const MEASUREMENT = z.object({ tools: z.number(), tookMs: z.number(), extraBytes: z.number() })
export type ImportMeasurement = z.output<typeof MEASUREMENT>

/** GitHub's description, from its npm package: 13 MB, more than a thousand operations. */
export async function measureImport(): Promise<ImportMeasurement> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      '--conditions=collet-source',
      '--disable-warning=ExperimentalWarning',
      join(import.meta.dirname, 'import-openapi.ts'),
      join(ROOT, 'node_modules/@octokit/openapi/generated'),
      'api.github.com.json',
    ],
    { timeout: LIMIT_MS },
  )
  return MEASUREMENT.parse(JSON.parse(stdout))
}
