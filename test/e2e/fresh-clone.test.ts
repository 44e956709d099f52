import { existsSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FreshClone, makeFreshClone } from './fresh-clone.ts'
import { type ServerProcess, startServerProcess } from './server-process.ts'

const LIMIT_MS = 120_000
const START = ['start', '--', '--port', '0']

let clone: FreshClone

beforeAll(() => {
  clone = makeFreshClone()
}, LIMIT_MS)

afterAll(() => clone.remove())

async function withServer(
  command: string,
  argv: readonly string[],
  use: (server: ServerProcess) => Promise<void>,
): Promise<void> {
  const server = await startServerProcess(command, argv, { cwd: clone.folder, env: clone.env })
  try {
    await use(server)
  } finally {
    await server.stop()
  }
}

/** The first line that Collet prints; npm repeats the script before it. */
function openLine(output: string): string {
  return output.split(/\r?\n/).find((line) => line.startsWith('Open ')) ?? ''
}

/** The page of the console with its program, as a browser loads it. */
async function loadsConsole(url: string): Promise<boolean> {
  const page = await (await fetch(url)).text()
  const [, script = ''] = /<script type="module"[^>]* src="([^"]+)"/.exec(page) ?? []
  const program = await fetch(new URL(script, `${url}/`))
  return (
    page.includes('<div id="console"') && program.status === 200 && (await program.text()).length > 10_000
  )
}

describe('a fresh clone', () => {
  it(
    'runs its launcher before anything is built',
    () => {
      expect(clone.run('./collet version').stdout).toMatch(/^collet \S+ \(Node 24\./)
      expect(clone.run('npx collet tools').stdout).toContain('Calculator.Add@1.1.0')
      expect(clone.run('npm run -s collet -- keys generate').stdout).toMatch(/^\S{44}\n$/)
      expect(existsSync(join(clone.folder, 'dist'))).toBe(false)
    },
    LIMIT_MS,
  )

  it(
    'serves the demo tools and the console with npm start; the first line is the address to open',
    async () => {
      await withServer('npm', START, async (server) => {
        const first = openLine(server.output())
        const [, link = ''] = /^Open (\S+\/sign-in\/\S+) \(signs you in once\)$/.exec(first) ?? []
        expect(link).toContain(`${server.url}/`)
        expect(server.output().match(/^Console built in [\d.]+ s\.$/gm)).toHaveLength(1)
        expect(server.output()).toContain('serves 6 tools (7 versions) on')
        expect(await loadsConsole(`${server.url}/console`)).toBe(true)
        for (const signIn of [link, clone.run('./collet sign-in').stdout.trim()]) {
          const opened = await fetch(signIn, { redirect: 'manual' })
          expect([opened.status, opened.headers.get('location')]).toEqual([
            303,
            expect.stringMatching(/^\/console(?:#|$)/),
          ])
        }
        expect(clone.run('./collet tools').stdout.trimEnd().split('\n')).toHaveLength(1 + 6)
      })
    },
    LIMIT_MS,
  )

  it.skipIf(!existsSync('/usr/bin/script'))(
    'prints a sign-in link as the first line on a terminal, and does not build again',
    async () => {
      const command = `npm ${START.join(' ')}`
      await withServer('script', ['-qec', command, '/dev/null'], async (server) => {
        await expect.poll(server.output).toContain('Start token')
        const [, link = ''] = /Open (\S+) \(signs you in once\)/.exec(server.output()) ?? []
        expect(server.output().indexOf('Open ')).toBeLessThan(server.output().indexOf('serves'))
        expect(server.output()).not.toContain('Console built')
        const opened = await fetch(link, { redirect: 'manual' })
        expect([opened.status, opened.headers.get('location')]).toEqual([
          303,
          expect.stringMatching(/^\/console(?:#|$)/),
        ])
      })
    },
    LIMIT_MS,
  )

  it(
    'rebuilds the console if its sources changed, and reports a failed build',
    () => {
      const built = () => statSync(join(clone.folder, 'dist/console/index.html')).mtimeMs
      const before = built()
      const source = join(clone.folder, 'console/src/main.tsx')
      const later = new Date(Date.now() + 1_000)
      utimesSync(source, later, later)
      expect(clone.run('node scripts/console.mjs').stderr).toMatch(/^Console built in [\d.]+ s\.\n$/)
      expect(built()).toBeGreaterThan(before)
      const broken = clone.run(
        `echo 'import "./not-there"' >> console/src/main.tsx; node scripts/console.mjs`,
      )
      expect([broken.status, broken.stderr]).toEqual([0, expect.stringContaining('Serving without')])
    },
    LIMIT_MS,
  )
})
