// Runs in a page. Returns what does not fit into its width, as texts.
(() => {
    const found = []
    const width = document.documentElement.clientWidth
    const content = document.querySelector('#main-content') ?? document.body
    const text = (element) => element.textContent.replace(/\s+/g, ' ').trim().slice(0, 60)
    const isVisible = (element) => element.checkVisibility?.({ checkVisibilityCSS: true }) ?? true

    const scrolls = (element) => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(element).overflowX)

    /// Returns whether an element above it keeps what it does not show from widening the page.
    const isInScroller = (element) => {
        for (let above = element.parentElement; above && above !== document.body; above = above.parentElement) {
            if (scrolls(above)) return true
        }
        return false
    }

    if (document.scrollingElement.scrollWidth > width) {
        found.push(`the page is ${document.scrollingElement.scrollWidth} wide`)
    }
    for (const element of content.querySelectorAll('*')) {
        const { right, width: own } = element.getBoundingClientRect()
        if (own > 0 && right > width + 1 && isVisible(element) && !isInScroller(element)) {
            found.push(`<${element.localName}> ends at ${Math.round(right)}: ${text(element)}`)
        }
    }

    for (const table of content.querySelectorAll('table')) {
        if (!isVisible(table)) continue
        let place = table
        while (place !== content && !scrolls(place)) place = place.parentElement
        if (place.scrollWidth > place.clientWidth + 1) {
            const own = place === table ? table.scrollWidth : table.getBoundingClientRect().width
            const words = [...new Set(table.textContent.split(/\s+/))].sort((a, b) => b.length - a.length)
            found.push(`a table of ${Math.round(own)} in ${place.clientWidth}: ${text(table.rows[0])}: ${words.slice(0, 5).join(' ')}`)
        }
    }

    for (const code of content.querySelectorAll('td code')) {
        if (!isVisible(code) || /\s/.test(code.textContent)) continue
        const lines = new Set([...code.getClientRects()].map((rect) => Math.round(rect.top))).size
        if (lines > 4) found.push(`a name in a table takes ${lines} lines: ${code.textContent}`)
    }

    /// Returns where the comment of a line begins, or -1. A mark in a string or in a URL begins none.
    const comment = (line, language) => {
        const mark = /toml|sh|ini|dockerfile|nginx|cmake/.test(language) ? /(^|\s)#\s/g : /(^|[^:/"'])\/\/[/!]?(\s|$)/g
        for (const match of line.matchAll(mark)) {
            const before = line.slice(0, match.index)
            if (before.replaceAll('\\"', '').split('"').length % 2 === 1) return match.index
        }
        return -1
    }

    for (const block of content.querySelectorAll('pre')) {
        if (!isVisible(block)) continue
        let place = block.querySelector('code') ?? block
        while (place !== content && !scrolls(place)) place = place.parentElement
        if (place === content || place.scrollWidth <= place.clientWidth + 1) continue
        const code = block.querySelector('code') ?? block
        const language = `${block.className} ${code.className}`
        const style = getComputedStyle(place)
        const end = place.getBoundingClientRect().left + place.clientWidth - parseFloat(style.paddingRight)

        // The nodes of the text with the offsets at which they begin.
        const nodes = []
        const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT)
        let length = 0
        for (let node; (node = walker.nextNode()); length += node.data.length) nodes.push([length, node])
        const point = (offset) => {
            const [start, node] = nodes.findLast(([start]) => start <= offset)
            return [node, offset - start]
        }
        let offset = 0
        for (const line of code.textContent.split('\n')) {
            const at = comment(line, language)
            if (at >= 0) {
                const range = document.createRange()
                range.setStart(...point(offset + at))
                range.setEnd(...point(offset + line.length))
                if (range.getBoundingClientRect().right > end + 1) {
                    const fits = Math.floor(line.length * (end - place.getBoundingClientRect().left)
                        / (range.getBoundingClientRect().right - place.getBoundingClientRect().left))
                    found.push(`a comment scrolls, ${line.length} columns and ${fits} fit: ${line}`)
                }
            }
            offset += line.length + 1
        }
    }
    return found
})()
