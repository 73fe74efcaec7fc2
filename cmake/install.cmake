# What 'cmake --install' puts where.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(LOCKSTEP_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

set(absent_headers "")
if(LOCKSTEP_MINIMAL)
  set(absent_headers REGEX "/(dataset_path|report|repro|run|search|settings|sweep)\\.h$" EXCLUDE)
endif()
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${absent_headers})
install(TARGETS ${LOCKSTEP_LIBRARIES} EXPORT lockstep_targets)
install(EXPORT lockstep_targets NAMESPACE lockstep:: DESTINATION ${LOCKSTEP_CMAKE_DIR})

# As in the source's folder, so that the pages' links to each other and to the examples lead somewhere; other links are mended.
install(FILES README.md CHANGELOG.md LICENSE SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "*.c" PATTERN "*.h" PATTERN "CMakeLists.txt")
file(RELATIVE_PATH headers ${CMAKE_INSTALL_FULL_DOCDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR}/lockstep)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_DOCDIR BASE_DIRECTORY "\${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE doc_folder)
install(CODE "set(PAGES \"\$ENV{DESTDIR}${doc_folder}\")\nset(HEADERS \"${headers}\")")
install(SCRIPT cmake/installed_pages.cmake)

if(TARGET lockstep_pages)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/_lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${pages}/lockstep.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

if(LOCKSTEP_HAS_CUDA)
  # not there in a build of lockstep_product alone
  install(TARGETS lockstep_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep OPTIONAL)
endif()
if(LOCKSTEP_HAS_MPI)
  install(TARGETS lockstep_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep)
endif()

configure_package_config_file(cmake/lockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake
  INSTALL_DESTINATION ${LOCKSTEP_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake
  ${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake
  cmake/dependencies.cmake
  DESTINATION ${LOCKSTEP_CMAKE_DIR})

# Relative to itself, so that it is right wherever --prefix puts it.
file(RELATIVE_PATH LOCKSTEP_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
if(LOCKSTEP_MINIMAL)
  set(LOCKSTEP_PC_MINIMAL " -DLOCKSTEP_MINIMAL")
else()
  set(LOCKSTEP_PC_WHOLE "-lz -lwebp ")
endif()
if(LOCKSTEP_HAS_ONEDNN)
  set(LOCKSTEP_PC_ONEDNN "-ldnnl -l:libgomp.so.1 ")
endif()
if(LOCKSTEP_HAS_ONNX)
  set(LOCKSTEP_PC_ONNX "-lprotobuf-c ")
endif()
configure_file(cmake/lockstep.pc.in ${PROJECT_BINARY_DIR}/package/lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
