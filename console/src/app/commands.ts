import { wordsOf } from '../../../src/sources/kit/command-words.ts'

/**
 * Quotes a word for a POSIX shell. Every command that the console shows is built with it, so that a copied command runs nothing
 * else.
 */
export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

/** The `collet import` command for a target. It is split into words as the server splits it. */
export function importCommand(target: string): string {
  return isCommand(target)
    ? `collet import -- ${wordsOf(target).map(quoted).join(' ')}`
    : `collet import ${quoted(target.replace(/^file:\/\//i, ''))}`
}

/** A target that is neither a URL nor a file is a program with its arguments. */
export function isCommand(target: string): boolean {
  return !/^(?:https?|file):\/\//i.test(target) && !/^\S+\.(?:json|ya?ml)$/i.test(target)
}

/** A command that looks like a file: one word that is a path. */
export function looksLikeFile(target: string): boolean {
  return isCommand(target) && /^(?:~|\.{0,2})\/\S*$/.test(target)
}

/** Words that need no quotes. zsh treats a leading `=` as the path of a program. */
const PLAIN = /^[\w@%+:,./-][\w@%+=:,./-]*$/
