/**
 * `npm run recording` makes docs/recording.gif, the picture of README: a real import, a real MCP client as the agent,
 * and the real console. Each frame is a screenshot by Chromium; the terminal is a page that shows what the commands
 * printed.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import chromium from '@sparticuz/chromium'
import { type Page, chromium as playwright } from 'playwright-core'
import { startServerProcess } from '../test/e2e/server-process.ts'

const ROOT = join(import.meta.dirname, '..')
const LAUNCHER = join(ROOT, 'collet')
const SIZE = { width: 960, height: 560 }
const CAPTION_HEIGHT = 36

interface Frame {
  readonly caption: string
  readonly png: string
  readonly ms: number
}

/** Runs in the page: one frame of the GIF, with the caption above the picture. */
const DRAW = `async ({ caption, png, ms, width, height, bar }) => {
  const picture = await createImageBitmap(await (await fetch('data:image/png;base64,' + png)).blob())
  const canvas = new OffscreenCanvas(width, height + bar)
  const context = canvas.getContext('2d')
  context.fillStyle = '#2b3040'
  context.fillRect(0, 0, width, bar)
  context.fillStyle = '#ffffff'
  context.font = '600 16px system-ui, sans-serif'
  context.fillText(caption, 20, bar - 12)
  context.drawImage(picture, 0, bar)
  const { data } = context.getImageData(0, 0, width, height + bar)
  const palette = gifenc.quantize(data, 128)
  gif.writeFrame(gifenc.applyPalette(data, palette), width, height + bar, { palette, delay: ms })
}`

const frames: Frame[] = []
const home = mkdtempSync(join(tmpdir(), 'demo-'))
try {
  await record()
} finally {
  rmSync(home, { recursive: true, force: true })
}

async function record(): Promise<void> {
  const notes = join(home, 'notes')
  for (const folder of [join(home, 'Claude'), notes]) mkdirSync(folder)
  const mcpServers = {
    filesystem: { command: 'mcp-server-filesystem', args: [notes] },
    memory: { command: 'mcp-server-memory', args: [] },
  }
  writeFileSync(join(home, 'Claude', 'claude_desktop_config.json'), JSON.stringify({ mcpServers }))
  const env = {
    ...{ ...process.env, NO_COLOR: '1', HOME: home, XDG_CONFIG_HOME: home },
    PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`,
  }
  const collet = async (...argv: string[]) => {
    const { stdout, stderr } = await promisify(execFile)(LAUNCHER, argv, { cwd: home, env })
    return `${stderr}${stdout}`.trimEnd().replaceAll(home, '~').split('\n')
  }

  const browser = await playwright.launch({
    executablePath: await chromium.executablePath(),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  })
  const terminal = await browser.newPage({ viewport: SIZE })
  const served = { stop: async (): Promise<unknown> => undefined }
  try {
    const imported = await collet('import', '--from', 'claude', '--yes')
    await collet('sources', 'set', 'Filesystem', '--approval', 'write_file=always')
    const running = await startServerProcess(LAUNCHER, ['serve', '--port', '0'], { cwd: home, env })
    served.stop = () => running.stop()
    const first = '1. Bring the MCP servers of your client'
    await type(terminal, first, [], './collet import --from claude')
    await show(terminal, first, ['$ ./collet import --from claude', ...imported.slice(0, 18)], 2_600)
    await type(terminal, first, [], './collet sources set Filesystem --approval write_file=always')

    const agent = new Client({ name: 'agent', version: '1.0.0' })
    await agent.connect(new StreamableHTTPClientTransport(new URL(`${running.url}/mcp`)))
    const { tools } = await agent.listTools()
    const name = tools.find((tool) => tool.name.endsWith('write_file'))?.name ?? ''
    const call = () =>
      agent.callTool({ name, arguments: { path: join(notes, 'todo.md'), content: 'Call the bank.' } })
    const asked = [
      `agent connected: ${tools.length} tools at ${running.url}/mcp`,
      '',
      `agent → ${name}`,
      '        { "path": "~/notes/todo.md", "content": "Call the bank." }',
    ]
    const refused = textOf(await call())
      .split(/(?<=\.) /, 2)
      .join(' ')
    const second = '2. An agent calls a tool that needs approval'
    await show(terminal, second, asked, 1_500)
    await show(terminal, second, [...asked, '', `Collet → ${refused}`], 1_900)

    const context = await browser.newContext({ viewport: SIZE, colorScheme: 'light', deviceScaleFactor: 1 })
    const console = await context.newPage()
    await console.goto(await signInLink(collet, running.url))
    await console.goto(`${running.url}/console/approvals`)
    const third = '3. A person decides in the console'
    await console.getByText('write_file').first().click()
    const approve = console.getByRole('button', { name: /^Approve/ }).first()
    await approve.waitFor()
    await approve.click({ trial: true })
    await take(console, third, 2_600)
    await approve.hover()
    await take(console, third, 700)
    await approve.click()
    await console
      .getByText(/approved/i)
      .first()
      .waitFor()
    await take(console, third, 1_600)

    const result = textOf(await call()).replaceAll(notes, '~/notes')
    await show(
      terminal,
      '4. The same call runs, once',
      [...asked, '', `Collet → ${refused}`, '', `Collet → ${result}`],
      2_400,
    )
    await agent.close()
    await console.goto(`${running.url}/console/calls`)
    await console.getByText('succeeded').first().waitFor()
    await take(console, '5. And it is on record', 2_600)

    const gif = await encode(await browser.newPage())
    writeFileSync(join(ROOT, 'docs/recording.gif'), gif)
    process.stdout.write(`docs/recording.gif: ${frames.length} frames, ${Math.round(gif.length / 1024)} kB\n`)
  } finally {
    await served.stop()
    await browser.close()
  }
}

function textOf({ content }: { readonly content: readonly object[] }): string {
  return content.flatMap((block) => ('text' in block ? [String(block.text)] : [])).join(' ')
}

async function signInLink(collet: (...argv: string[]) => Promise<string[]>, url: string): Promise<string> {
  const lines = await collet('sign-in', '--url', url)
  const link = lines.flatMap((line) => /https?:\S+\/sign-in\/\S+/.exec(line)?.[0] ?? [])[0]
  if (link === undefined) throw new Error(`collet sign-in printed no link: ${lines.join('\n')}`)
  return link
}

async function type(page: Page, caption: string, before: readonly string[], command: string): Promise<void> {
  for (const share of [0.3, 0.7, 1])
    await show(page, caption, [...before, `$ ${command.slice(0, Math.round(command.length * share))}▌`], 260)
}

async function show(page: Page, caption: string, lines: readonly string[], ms: number): Promise<void> {
  const text = lines.join('\n').replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  await page.setContent(
    `<body style="margin:0;background:#16181d"><pre style="margin:0;padding:24px 28px;font:15px/1.5 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;color:#e6e8ec;white-space:pre-wrap">${text}</pre>`,
  )
  await take(page, caption, ms)
}

async function take(page: Page, caption: string, ms: number): Promise<void> {
  frames.push({ caption, png: (await page.screenshot()).toString('base64'), ms })
}

/** The browser decodes the pictures and writes the captions; gifenc runs in the page. */
async function encode(page: Page): Promise<Buffer> {
  const gifenc = readFileSync(createRequire(import.meta.url).resolve('gifenc'), 'utf8')
  await page.setContent('<body>')
  await page.evaluate(`globalThis.gifenc = (() => { const module = { exports: {} }, exports = module.exports;
    ${gifenc}; return module.exports })()`)
  await page.evaluate(`globalThis.gif = gifenc.GIFEncoder()`)
  for (const frame of frames) {
    const drawn = { ...frame, ...SIZE, bar: CAPTION_HEIGHT }
    await page.evaluate(`(${DRAW})(${JSON.stringify(drawn)})`)
  }
  const base64 = await page.evaluate<string>(`(() => { gif.finish(); let text = '';
    for (const byte of gif.bytes()) text += String.fromCharCode(byte); return btoa(text) })()`)
  return Buffer.from(base64, 'base64')
}
