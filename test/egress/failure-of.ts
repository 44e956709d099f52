import { isToolError, type ToolError } from '#kernel/base/errors'

/** The fault that a fetch ends with. */
export async function failureOf(work: Promise<unknown>): Promise<ToolError> {
  try {
    await work
  } catch (error) {
    if (isToolError(error)) return error
    throw error
  }
  throw new Error('nothing failed')
}
