import type { Page } from 'playwright-core'

/**
 * Processor time of each task of the page's main thread while `act` runs, in milliseconds, longest first. It hardly depends on the
 * load of the machine, and other work of the browser is not included.
 */
export async function tasksDuring(page: Page, act: () => Promise<void>): Promise<readonly number[]> {
  const session = await page.context().newCDPSession(page)
  const events: TraceEvent[] = []
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value.map(readEvent)))
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: ['toplevel'] },
  })
  await act()
  const whole = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve))
  await session.send('Tracing.end')
  await whole
  await session.detach()
  const threads = new Set(
    events.filter(({ name, thread }) => name === 'thread_name' && thread === PAGE_THREAD).map(({ at }) => at),
  )
  const tasks = events.filter(({ name, at }) => name === TASK && threads.has(at))
  return tasks.map(({ ms }) => ms).toSorted((left, right) => right - left)
}

const PAGE_THREAD = 'CrRendererMain'
const TASK = 'ThreadControllerImpl::RunTask'

interface TraceEvent {
  readonly name: string
  /** Its process and thread. */
  readonly at: string
  readonly ms: number
  /** The event that names the thread. */
  readonly thread: unknown
}

function readEvent(event: Readonly<Record<string, unknown>>): TraceEvent {
  const { name, pid, tid, tdur, args } = event
  return {
    name: String(name),
    at: `${pid} ${tid}`,
    ms: (typeof tdur === 'number' ? tdur : 0) / 1000,
    thread: typeof args === 'object' && args !== null && 'name' in args ? args.name : undefined,
  }
}
