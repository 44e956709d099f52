/**
 * Copies a text, and returns whether it worked. Browsers offer the clipboard API only over https or on localhost. On other pages
 * the text is selected and copied with the older command.
 */
export async function copyText(text: string): Promise<boolean> {
  try {
    // `navigator.clipboard` is undefined on insecure pages, despite its type.
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelecting(text)
  }
}

function copyBySelecting(text: string): boolean {
  const before = document.activeElement
  const field = document.createElement('textarea')
  field.className = 'vh'
  field.value = text
  field.readOnly = true
  // The field is next to the focused element, because an open dialog prevents selection outside of it.
  const beside = before?.parentElement ?? document.body
  beside.append(field)
  try {
    field.select()
    return document.execCommand('copy')
  } catch {
    return false
  } finally {
    field.remove()
    if (before instanceof HTMLElement) before.focus({ preventScroll: true })
  }
}
