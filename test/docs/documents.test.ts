import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet, startServerProcess } from '../e2e/server-process.ts'
import { installProject } from './installed-project.ts'
import { type MarkdownBlock, readBlocks } from './markdown-blocks.ts'
import { matchesSample } from './matches-sample.ts'

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const BUILD_LIMIT_MS = 180_000
const DOCUMENTED_URL = 'http://127.0.0.1:4100'

let folder: string
let server: ServerProcess
/** With the built package installed. */
let project: string
const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}`, NODE_OPTIONS: '' }

/** Runs a shell block against the test's server instead of the documented address. */
async function runShell(block: string): Promise<string> {
  const { stdout } = await run('sh', ['-ec', block.replaceAll(DOCUMENTED_URL, server.url)], {
    cwd: ROOT,
    env: {
      ...process.env,
      PATH: `${join(import.meta.dirname, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`,
      COLLET_URL: server.url,
      COLLET_CONFIG: join(folder, 'collet.config.ts'),
    },
  })
  return stdout
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-docs-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import demo from ${JSON.stringify(join(ROOT, 'examples/demo/collet.config.ts'))}
     export default { ...demo, server: { port: 0 } }`,
  )
  server = await startCollet(['serve'], { cwd: folder })
  project = installProject()
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await server.stop()
  for (const made of [folder, project]) rmSync(made, { recursive: true })
})

/** Run one after the other in a project of their own, below. */
const IN_A_PROJECT = new Set(['npm install collet zod\n', 'npx collet serve\n', 'node call.ts\n'])
/** The servers of a client are imported, and served, by an end-to-end test of its own. */
const RUN_ELSEWHERE = new Set(['npx collet import --from claude\nnpx collet serve\n', ...IN_A_PROJECT])

describe.each(['README.md', 'docs/protocols/otc.md', 'docs/protocols/openwop.md', 'docs/protocols/mcp.md'])(
  'the shell blocks of %s',
  (file) => {
    const blocks = readBlocks(file)
    const shell = blocks
      .map((block, index) => ({ block, sample: sampleAfter(blocks, index) }))
      .filter(({ block }) => block.language === 'sh' && !RUN_ELSEWHERE.has(block.text))

    it('are there', () => {
      expect(shell.length).toBeGreaterThan(1)
    })

    it.each(shell.map(({ block, sample }) => [block.line, block, sample] as const))(
      'line %i runs and answers what is shown',
      async (_line, block, sample) => {
        const output = await runShell(block.text)
        if (sample === undefined) return
        if (sample.language === 'text') {
          expect(output.trimEnd()).toMatch(patternOf(sample.text))
          return
        }
        const lastAnswer: unknown = JSON.parse(output.slice(lastAnswerStart(output)))
        const shown: unknown = JSON.parse(sample.text.replaceAll(DOCUMENTED_URL, server.url))
        if (!matchesSample(shown, lastAnswer)) expect(lastAnswer).toEqual(shown)
      },
    )
  },
)

/** Answers follow each other without a space; an OTC answer begins with `$schema`, a descriptor with its id. */
function lastAnswerStart(output: string): number {
  if (output.startsWith('{"events"')) return 0
  if (output.startsWith('{"jsonrpc"')) return output.lastIndexOf('{"jsonrpc"')
  return Math.max(0, output.lastIndexOf('{"$schema"'), output.lastIndexOf('{"toolId"'))
}

function sampleAfter(blocks: readonly MarkdownBlock[], index: number): MarkdownBlock | undefined {
  const next = blocks[index + 1]
  return next?.language === 'json' || next?.text.startsWith(': ') === true ? next : undefined
}

/** The whole of a text, where `…` stands for anything. */
function patternOf(text: string): RegExp {
  const literal = text.trimEnd().replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${literal.replaceAll('…', '.+')}$`)
}

describe('"Start" of README.md', () => {
  const blocks = readBlocks('README.md')
  const commands = blocks.filter(({ text }) => IN_A_PROJECT.has(text)).map(({ text }) => text.trim())
  const files = blocks.filter(({ language }) => language === 'ts')
  it('works as printed, in an empty project with the package installed', async () => {
    expect(commands).toEqual(['npm install collet zod', 'npx collet serve', 'node call.ts'])
    const [, serve, call = ''] = commands
    const [config, client] = files
    writeFileSync(join(project, fileOf(config)), config?.text ?? '')
    const own = await startServerProcess('sh', ['-c', `${serve} --port 0`], { cwd: project, env })
    try {
      writeFileSync(join(project, fileOf(client)), (client?.text ?? '').replaceAll(DOCUMENTED_URL, own.url))
      const { stdout, stderr } = await run('sh', ['-c', call], { cwd: project, env })
      expect(stdout).toBe('5\n')
      expect(stderr).toBe('')
      expect(own.output()).not.toMatch(/warning|undefined/i)
    } finally {
      await own.stop()
    }
  })

  it('says in each file what to call it, and names it in the text', () => {
    const text = readFileSync(join(ROOT, 'README.md'), 'utf8')
    expect(files.map(fileOf)).toEqual(['collet.config.ts', 'call.ts'])
    for (const file of files.map(fileOf)) expect(text).toContain(`\`${file}\``)
  })
})

describe('docs/embedding.md', () => {
  const files = readBlocks('docs/embedding.md')

  it('has an example of each', () => {
    expect(files.map(fileOf)).toEqual([
      'gateway.ts',
      'counter.ts',
      'serve.ts',
      'mounted.ts',
      'app/agent/[...path]/route.ts',
      'next.config.mjs',
      'greet.test.ts',
      'twice.test.ts',
    ])
  })

  // The files for Next are built and started by test/embedding/next.long.test.ts.
  const programs = files.filter((block) => !/^(app\/|next\.)/.test(fileOf(block)))

  it.each(programs.map((block) => [fileOf(block), block] as const))(
    '%s runs as printed',
    async (name, { text }) => {
      writeFileSync(join(project, name), text)
      const { stdout } = await run(process.execPath, [name], { cwd: project, env })
      const printed = [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, shown]) => shown)
      if (printed.length > 0) expect(stdout.trimEnd().split('\n')).toEqual(printed)
      else expect(stdout).toMatch(/pass 1$/m)
    },
  )
})

describe('"From your own program" of docs/approvals.md', () => {
  it('runs as printed', async () => {
    const block = readBlocks('docs/approvals.md').find(({ text }) => text.startsWith('// approve.ts'))
    writeFileSync(join(project, fileOf(block)), block?.text ?? '')
    const { stdout } = await run(process.execPath, [fileOf(block)], { cwd: project, env })
    const shown = [...(block?.text ?? '').matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)]
    expect(stdout.trimEnd().split('\n')).toEqual(shown.map(([, printed]) => printed))
    expect(shown).toHaveLength(4)
  })
})

describe('"Tools that keep state" of docs/configuration.md', () => {
  it('shows a tool that loads, and has state of its own in a call without a session', async () => {
    const block = readBlocks('docs/configuration.md').find(({ text }) => text.includes('session: {'))
    expect(fileOf(block)).toBe('counter.ts')
    writeFileSync(join(project, 'counter.ts'), block?.text ?? '')
    writeFileSync(
      join(project, 'count.ts'),
      `import { createGateway } from 'collet'
       import { count } from './counter.ts'
       const gateway = await createGateway({ tools: [count], store: 'memory:' })
       for (const _ of [1, 2]) console.log(await gateway.call('Counter.Next', {}).then(({ value }) => value))
       await gateway.close()`,
    )
    expect((await run(process.execPath, ['count.ts'], { cwd: project, env })).stdout).toBe('1\n1\n')
  })
})

/** The name in the comment on a block's first line. */
function fileOf(block: MarkdownBlock | undefined): string {
  return /^\/\/ (\S+)\n/.exec(block?.text ?? '')?.[1] ?? ''
}

describe('README.md', () => {
  it('is short, and shows a command before line 20', () => {
    const lines = readFileSync(join(ROOT, 'README.md'), 'utf8').split('\n')
    expect(lines.length).toBeLessThan(120)
    expect(readBlocks('README.md')[0]?.line).toBeLessThan(20)
  })
})

describe('matchesSample', () => {
  it('notices a wrong value, a missing and a surplus member', () => {
    const sample = { a: 1, b: ['…x'], duration: 0.2 }
    expect(matchesSample(sample, { a: 1, b: ['yyx'], duration: 7 })).toBe(true)
    expect(matchesSample(sample, { a: 2, b: ['yyx'], duration: 7 })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yy'], duration: 7 })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yyx'] })).toBe(false)
    expect(matchesSample(sample, { a: 1, b: ['yyx'], duration: 7, c: 1 })).toBe(false)
  })
})
