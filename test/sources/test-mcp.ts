import { onTestFinished } from 'vitest'
import { openMcp } from './open-mcp.ts'

/** An upstream that is closed when the test that opened it has ended. */
export const openTestMcp: typeof openMcp = (...parts) => {
  const upstream = openMcp(...parts)
  onTestFinished(() => upstream.source.close())
  return upstream
}
