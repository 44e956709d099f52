import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { readBlocks } from './markdown-blocks.ts'
import { matchesSample } from './matches-sample.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const DOCUMENTED_URL = 'http://127.0.0.1:4100'

const blocks = readBlocks('docs/credentials.md')
let folder: string
let server: ServerProcess

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-docs-'))
  const config = blocks.find(({ text }) => text.startsWith('// collet.config.ts'))?.text ?? ''
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    config.replaceAll("'collet'", `'${join(ROOT, 'src/index.ts')}'`),
  )
  server = await startCollet(['serve', '--port', '0'], { cwd: folder })
}, 60_000)

afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

/** Shell blocks with the output that the page shows, in the order of the page. */
const steps = blocks.flatMap((block, index) => {
  const sample = blocks[index + 1]
  return block.language === 'sh' && sample !== undefined ? [{ block, sample }] : []
})

describe('docs/credentials.md', () => {
  it('has steps', () => {
    expect(steps).toHaveLength(4)
  })

  it.each(steps.map(({ block, sample }) => [block.line, block, sample] as const))(
    'line %i runs and gets the shown answer',
    async (_line, block, sample) => {
      const { stdout } = await run('sh', ['-ec', block.text.replaceAll(DOCUMENTED_URL, server.url)], {
        cwd: folder,
        env: {
          ...process.env,
          PATH: `${join(ROOT, 'test/docs/bin')}:${dirname(process.execPath)}:${process.env.PATH}`,
        },
      })
      if (sample.language === 'text') {
        expect(wordsOf(stdout)).toMatch(patternOf(sample.text))
        return
      }
      const shown: unknown = JSON.parse(sample.text.replaceAll(DOCUMENTED_URL, server.url))
      const answer: unknown = JSON.parse(stdout)
      if (!matchesSample(shown, answer)) expect(answer).toEqual(shown)
    },
  )
})

function wordsOf(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ')
}

/** Matches a whole text word by word, where `…` stands for anything. */
function patternOf(text: string): RegExp {
  const words = wordsOf(text.replace(/^: /, '')).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${words.replaceAll(' … ', ' ').replaceAll('…', '\\S+')}$`)
}
